//! A network that has bad days: a transport that loses, delays, repeats, reorders and corrupts what
//! its clients send, from a seed, and keeps its own books of what should be believed.

pub mod run;

use std::collections::{BTreeMap, BTreeSet};

use fedback_core::base::{Base, Gaussian};
use fedback_core::federation::{ClientId, Federation};
use fedback_core::loss::Loss;
use fedback_core::protocol::{Protocol, Round};
use fedback_core::response::{Sensitivity, location};
use fedback_core::state::Layout;
use fedback_core::stream::{Draws, Purpose, Seed, Stream, Streams};
use fedback_engine::live::{Arrival, Assignment, LiveOrder, Sender, Transport, TransportError};
use fedback_engine::server::{Refusal, Update};
use fedback_engine::work::{Order, Scratch, Task, Work, step_sizes};

pub const CLIENTS: usize = 5;
pub const DIM: usize = 2;
pub const REPETITIONS: usize = 2;
pub const SEED: Seed = Seed(9);

/// How many schedules a test plays: `usual`, or as many as `FEDBACK_SCHEDULES` says, if more. What is
/// counted over all of them needs at least the usual number.
pub fn schedules(usual: u64) -> u64 {
    let wanted = std::env::var("FEDBACK_SCHEDULES").ok();
    let wanted = wanted.map(|count| count.parse().expect("FEDBACK_SCHEDULES is a number"));
    wanted.map_or(usual, |count: u64| count.max(usual))
}

pub fn federation() -> Federation {
    Federation::new(
        vec![0.35, 0.25, 0.2, 0.15, 0.05],
        Base::Gaussian(Gaussian {
            dim: DIM,
            mean: (0..CLIENTS * DIM).map(|k| 1.0 + k as f64).collect(),
            noise: 0.7,
        }),
        location(&Sensitivity::Scalar(vec![0.5, 0.9, -1.5, 0.2, 0.0]), DIM, false),
        Loss::Mean,
    )
    .unwrap()
}

pub fn draws(seed: u64) -> Draws {
    Stream::for_problem(Seed(seed), Purpose::Data).draws()
}

/// How bad the days are: chances between 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// An update never comes.
    pub lost: f64,
    /// It comes after the deadline, perhaps rounds later.
    pub delayed: f64,
    /// It comes twice.
    pub repeated: f64,
    /// Something wrong comes before it.
    pub corrupted: f64,
    /// A site goes down for a while, before an order.
    pub crashed: f64,
    /// A deadline comes although something is on the way.
    pub hasty: f64,
    /// So many clients, the first ones, send several wrong things at every order; where all is never
    /// well, nothing else.
    pub attackers: u32,
    /// From this order of a round on, all is well; none where it may never be.
    pub well_from: Option<u32>,
}

/// What a refusal or its absence will be, by the network's own books.
type Verdict = Option<&'static str>;

pub struct Network<'a> {
    federation: &'a Federation,
    protocol: Protocol,
    weather: Weather,
    /// K, where the first arrivals make the cohort.
    first: Option<usize>,
    /// Repetitions that have failed, and are not played any more.
    failed: Vec<u64>,
    pub draws: Draws,
    on_the_way: Vec<Arrival>,
    delayed: Vec<Arrival>,
    /// Orders that a site misses still, by client.
    down: BTreeMap<ClientId, usize>,
    pub round: Round,
    orders: u32,
    pub asked: BTreeSet<Assignment>,
    /// Accepted in the open round, in the order of arrival.
    pub accepted: Vec<Assignment>,
    broadcasts: Vec<f64>,
    /// What those who were asked keep, as they were told.
    kept: BTreeMap<Assignment, Vec<f64>>,
    awaited: Option<(Sender, Verdict)>,
    pub refusals: BTreeMap<&'static str, usize>,
}

impl<'a> Network<'a> {
    pub fn new(
        federation: &'a Federation,
        protocol: Protocol,
        weather: Weather,
        first: Option<usize>,
        seed: u64,
    ) -> Self {
        Network {
            federation,
            protocol,
            weather,
            first,
            failed: Vec::new(),
            draws: draws(seed),
            on_the_way: Vec::new(),
            delayed: Vec::new(),
            down: BTreeMap::new(),
            round: Round(0),
            orders: 0,
            asked: BTreeSet::new(),
            accepted: Vec::new(),
            broadcasts: Vec::new(),
            kept: BTreeMap::new(),
            awaited: None,
            refusals: BTreeMap::new(),
        }
    }

    /// The same network under a run some of whose repetitions have failed.
    pub fn without(self, failed: &[u64]) -> Self {
        Network { failed: failed.to_vec(), ..self }
    }

    fn chance(&mut self, chance: f64) -> bool {
        self.draws.uniform() < chance
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.protocol, None, DIM, CLIENTS)
    }

    /// What was broadcast to the clients of a repetition.
    fn broadcast(&self, repetition: u64) -> &[f64] {
        let each = self.layout().broadcast();
        &self.broadcasts[repetition as usize * each..][..each]
    }

    /// The honest work of a client, from what it was sent alone.
    fn honest(&self, order: &LiveOrder<'_>, at: Assignment) -> Arrival {
        let mut sizes = Vec::new();
        step_sizes(&self.protocol, order.round, &mut sizes);
        assert_eq!(order.first_step, self.protocol.first_step(order.round));
        let work = Order { protocol: &self.protocol, step_sizes: &sizes };
        let streams = Streams::new(order.seed, at.repetition, order.round.0, Purpose::Data);
        let broadcast = self.broadcast(at.repetition);
        let task = Task { streams, broadcast, clients: &[at.client] };
        let (mut delta, mut kept) = (vec![0.0; DIM], self.kept[&at].clone());
        let scratch = &mut Scratch::default();
        self.federation.work(&work, &[task], &mut delta, &mut kept, scratch).unwrap();
        let sender = Sender { round: order.round, repetition: at.repetition, client: at.client };
        Arrival::Update { sender, update: Update { delta, kept } }
    }

    /// Something wrong in place of an update.
    fn corrupt(&mut self, honest: &Arrival) -> Arrival {
        let Arrival::Update { mut sender, update } = honest.clone() else { unreachable!() };
        let Update { mut delta, mut kept } = update;
        let coordinate = self.draws.index(DIM);
        match self.draws.index(24) {
            0 => delta[coordinate] = f64::NAN,
            1 => delta[coordinate] = f64::INFINITY,
            2 => delta[coordinate] = -1e200,
            3 => delta[coordinate] = f64::MAX,
            4 => drop(delta.pop()),
            5 => delta.push(0.0),
            6 => sender.round.0 += 1000,
            7 => sender.client.0 = CLIENTS as u32 + 3,
            8 => sender.repetition = u64::MAX - 1,
            9 => kept.push(0.0),
            // Where the rule keeps nothing, a number too many.
            10 if kept.pop().is_none() => kept.push(1.0),
            10 => {}
            wrong @ (11..=14) => {
                let number = [f64::NAN, f64::NEG_INFINITY, -1e300, 0.125][wrong - 11];
                match kept.get_mut(coordinate) {
                    Some(kept) => *kept += number,
                    None => kept.push(number),
                }
            }
            // More than anybody's honest work, and a little more than is allowed.
            15 => delta[coordinate] = 1e7,
            16 => {
                let longest = self.longest().unwrap_or(1e7);
                let length = delta.iter().map(|d| d * d).sum::<f64>().sqrt();
                delta.iter_mut().for_each(|d| *d *= 1.001 * longest / length);
            }
            17 => delta = vec![0.0; 10_000],
            18 => delta.clear(),
            19 => sender.round.0 = sender.round.0.wrapping_sub(1),
            20 => sender.client.0 = u32::MAX,
            21 => sender.repetition = REPETITIONS as u64,
            22 => kept = vec![1e-3; 10_000],
            _ => {
                // Labelled as another repetition's, where the server can tell: that one did not
                // ask for it.
                sender.repetition = (sender.repetition + 1) % REPETITIONS as u64;
                let label = Assignment { client: sender.client, repetition: sender.repetition };
                if self.asked.contains(&label) {
                    delta.clear();
                }
            }
        }
        Arrival::Update { sender, update: Update { delta, kept } }
    }

    /// What the server ought to say.
    fn verdict(&self, sender: Sender, Update { delta, kept }: &Update) -> Verdict {
        let Sender { round, repetition, client } = sender;
        let at = Assignment { client, repetition };
        let come = self.accepted.iter().filter(|a| a.repetition == repetition).count();
        if repetition >= REPETITIONS as u64 {
            Some("unknown repetition")
        } else if self.failed.contains(&repetition) {
            Some("no round open")
        } else if round != self.round {
            Some("other round")
        } else if !self.asked.contains(&at) {
            Some("not asked")
        } else if self.accepted.contains(&at) {
            Some("duplicate")
        } else if self.first.is_some_and(|size| come >= size) {
            Some("late")
        } else if delta.len() != DIM {
            Some("wrong length")
        } else if kept.len() != self.layout().kept {
            Some("kept length")
        } else if !delta.iter().all(|d| d.is_finite()) {
            Some("not finite")
        } else {
            let longest = self.longest().map_or(1e6, |longest| 1.0000001 * longest);
            if delta.iter().map(|d| d * d).sum::<f64>().sqrt() > longest {
                Some("too long")
            } else {
                self.kept_other(at, delta, kept).then_some("kept other")
            }
        }
    }

    /// How long an update may be, where the protocol says it.
    fn longest(&self) -> Option<f64> {
        let total: f64 = self.protocol.sizes(self.round).sum();
        self.protocol.clip.map(|clip| clip * total)
    }

    /// Whether a client does not keep what SCAFFOLD's rule makes of its update: c_i − c − δ/Ση.
    fn kept_other(&self, at: Assignment, delta: &[f64], kept: &[f64]) -> bool {
        let total: f64 = self.protocol.sizes(self.round).sum();
        let sent = &self.broadcast(at.repetition)[DIM..];
        let before = sent.iter().zip(&self.kept[&at]);
        let rule = before.zip(delta).map(|((c, own), delta)| own - c - delta / total);
        !kept.iter().zip(rule).all(|(kept, rule)| (kept - rule).abs() <= 1e-9 * (1.0 + rule.abs()))
    }

    /// A refusal comes before the next call, or not at all.
    fn settle(&mut self) {
        if let Some((sender, verdict)) = self.awaited.take() {
            assert_eq!(verdict, None, "{sender:?} was not refused");
            let Sender { repetition, client, .. } = sender;
            self.accepted.push(Assignment { client, repetition });
        }
    }

    /// The server has closed the round or died: what was awaited is settled.
    pub fn closed(&mut self) {
        self.settle();
    }

    /// Who was accepted for a repetition in the open round, in the order of arrival.
    pub fn came(&self, repetition: u64) -> Vec<ClientId> {
        let own = self.accepted.iter().filter(|a| a.repetition == repetition);
        own.map(|a| a.client).collect()
    }

    fn send(&mut self, order: &LiveOrder<'_>, at: Assignment) {
        let honest = self.honest(order, at);
        let well = self.weather.well_from.is_some_and(|from| self.orders > from);
        let attacks = at.client.0 < self.weather.attackers;
        let wrong = match attacks {
            true => 1 + self.draws.index(6),
            false => usize::from(self.chance(self.weather.corrupted)),
        };
        for _ in 0..wrong {
            let wrong = self.corrupt(&honest);
            self.on_the_way.push(wrong);
        }
        if attacks && self.weather.well_from.is_none() {
            return;
        }
        if well {
            self.on_the_way.push(honest);
            return;
        }
        if self.chance(self.weather.lost) {
            return;
        }
        if self.chance(self.weather.repeated) {
            self.delayed.push(honest.clone());
            self.on_the_way.push(honest.clone());
        }
        match self.chance(self.weather.delayed) {
            true => self.delayed.push(honest),
            false => self.on_the_way.push(honest),
        }
    }
}

impl Transport for Network<'_> {
    fn ask(&mut self, order: &LiveOrder<'_>) -> Result<(), TransportError> {
        self.settle();
        assert!(order.asked.is_sorted() && !order.asked.is_empty());
        assert_eq!(order.seed, SEED);
        if !order.again {
            (self.round, self.orders) = (order.round, 0);
            self.asked = order.asked.iter().copied().collect();
            self.accepted.clear();
            self.broadcasts = order.broadcasts.to_vec();
            self.kept.clear();
        }
        assert_eq!((order.round, order.broadcasts), (self.round, self.broadcasts.as_slice()));
        let each = self.layout().kept;
        assert_eq!(order.kept.len(), order.asked.len() * each);
        for (place, at) in order.asked.iter().enumerate() {
            let kept = &order.kept[place * each..][..each];
            assert_eq!(self.kept.entry(*at).or_insert_with(|| kept.to_vec()), kept);
        }
        let pending = |at: &Assignment| self.asked.contains(at) && !self.accepted.contains(at);
        assert!(order.asked.iter().all(pending), "asked for what has come");
        self.orders += 1;
        // News of an absence is about what was asked last.
        self.on_the_way.retain(|arrival| !matches!(arrival, Arrival::Absent { .. }));
        // Some of what was late arrives now.
        let late = std::mem::take(&mut self.delayed);
        for arrival in late {
            match self.chance(0.5) {
                true => self.on_the_way.push(arrival),
                false => self.delayed.push(arrival),
            }
        }
        let well = self.weather.well_from.is_some_and(|from| self.orders > from);
        for client in (0..CLIENTS as u32).map(ClientId) {
            if self.chance(self.weather.crashed) {
                let orders = 1 + self.draws.index(4);
                self.down.insert(client, orders);
            }
            let down = match self.down.get_mut(&client) {
                Some(orders) if *orders > 0 && !well => {
                    *orders -= 1;
                    true
                }
                _ => false,
            };
            let own: Vec<Assignment> =
                order.asked.iter().filter(|at| at.client == client).copied().collect();
            match down {
                // A site that is down is noticed, or is silent.
                true if self.chance(0.5) => {
                    self.on_the_way.push(Arrival::Absent { client, reason: "down".into() });
                }
                true => {}
                false => own.into_iter().for_each(|at| self.send(order, at)),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Arrival, TransportError> {
        self.settle();
        let well = self.weather.well_from.is_some_and(|from| self.orders > from);
        let hasty = !well && self.chance(self.weather.hasty);
        if self.on_the_way.is_empty() || hasty {
            return Ok(Arrival::Deadline);
        }
        let place = self.draws.index(self.on_the_way.len());
        let arrival = self.on_the_way.swap_remove(place);
        if let Arrival::Update { sender, update } = &arrival {
            self.awaited = Some((*sender, self.verdict(*sender, update)));
        }
        Ok(arrival)
    }

    fn refused(&mut self, sender: Sender, reason: &Refusal) {
        let (awaited, verdict) = self.awaited.take().expect("nothing was sent");
        assert_eq!(sender, awaited);
        let found = match reason {
            Refusal::NoRoundOpen => "no round open",
            Refusal::UnknownRepetition(_) => "unknown repetition",
            Refusal::OtherRound { .. } => "other round",
            Refusal::NotAsked(_) => "not asked",
            Refusal::Duplicate(_) => "duplicate",
            Refusal::Late(_) => "late",
            Refusal::WrongLength { .. } => "wrong length",
            Refusal::KeptLength { .. } => "kept length",
            Refusal::KeptOther(_) => "kept other",
            Refusal::NotFinite(_) => "not finite",
            Refusal::TooLong { .. } => "too long",
        };
        assert_eq!(verdict, Some(found), "{sender:?}: {reason}");
        *self.refusals.entry(found).or_default() += 1;
    }
}
