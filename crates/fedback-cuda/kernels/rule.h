// Local rules, as `rule/` of the engine has them: what a client makes of a gradient, one coordinate
// at a time.

#pragma once
#include "device.h"

constexpr u64 DESCENT = 0;
constexpr u64 PROXIMAL = 1;
constexpr u64 SCAFFOLD = 2;

// A coordinate of a client in the middle of its round.
struct Coordinate {
    f64 w, theta, control;
};

// The size of a step, and what the gradient is multiplied with.
struct StepSizes {
    f64 plain, gradient;
};

// What a client makes of a gradient. `rule` is a constant where a kernel is compiled for each.
DEVICE f64 step_by(u64 rule, f64 proximal, Coordinate at, f64 gradient, StepSizes size) {
    if (rule == PROXIMAL) {
        f64 spring = proximal * (at.w - at.theta);
        return at.w - (size.gradient * gradient + size.plain * spring);
    }
    if (rule == SCAFFOLD) {
        return at.w - (size.gradient * gradient + size.plain * at.control);
    }
    return at.w - size.gradient * gradient;
}

// What enters all steps of a round, of what the server sent and what the client kept.
DEVICE f64 control_of(f64 sent, f64 kept) { return sent - kept; }

// What a client keeps after a round that moved its model by `delta` in steps of `total` size.
DEVICE f64 keep_of(f64 control, f64 delta, f64 total) { return -(control + delta / total); }
