-- What a site records: which model was served since when, and what was observed when.
create table deployment (
    id bigint generated always as identity primary key,
    theta float8[] not null,
    since timestamptz not null default clock_timestamp()
);
create table outcome (
    id bigint generated always as identity primary key,
    seen timestamptz not null default clock_timestamp(),
    utilisation float8 not null,
    lines float8 not null,
    defaulted boolean not null
);
