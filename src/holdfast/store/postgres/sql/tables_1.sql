-- Format 1. A row of any table belongs to one repository; every look-up begins with it.
-- Keys compare byte by byte ("C"), as in the rulebook, whatever the language of the database.

create table repositories (
    id integer generated always as identity primary key,
    name text collate "C" not null unique,
    moved_to text,               -- where the ledger is now, if it was moved away
    -- The anchor of ledger time, for a store with a clock of its caller. Else the server's time rules.
    boot text, uptime bigint, ledger bigint, slept bigint, asleep bigint
);

create table events (
    repository integer not null,
    seq bigint not null,
    at bigint not null,
    token bigint not null,       -- the largest token issued so far
    type text not null,
    version integer not null,
    data text not null,
    primary key (repository, seq)
);

create table repeats (           -- events that said the same again instead of being written again
    repository integer not null,
    once text collate "C" not null, seq bigint not null, count bigint not null, last_at bigint not null,
    primary key (repository, once)
);
create index repeats_by_seq on repeats (repository, seq);

create table live (              -- a row for each key of a grant, and one for itself:
    repository integer not null,
    key text collate "C" not null,       -- "grant:" and its id
    grant_id text collate "C" not null,
    mode text collate "C" not null,      -- there: the holder's key
    seq bigint,                          -- and the event that says the rest, and the limits
    expires_at bigint, idle_at bigint, slept bigint,
    inode text collate "C",              -- of a file, for those who ask for it by another name
    primary key (repository, key, grant_id)
);
create index live_by_holder on live (repository, mode) where seq is not null;
create index live_by_seq on live (repository, seq) where seq is not null;
create index live_by_inode on live (repository, inode) where inode is not null;

create table lost (              -- grants that were not given back, and the event that ended them
    repository integer not null,
    id text collate "C" not null, seq bigint not null,
    primary key (repository, id)
);
create index lost_by_seq on lost (repository, seq);

create table notes (             -- the last word on something: which event said it
    repository integer not null,
    name text collate "C" not null, seq bigint not null,
    primary key (repository, name)
);

create table tickets (
    repository integer not null,
    id text collate "C" not null,
    seq bigint not null,
    holder_key text collate "C" not null,
    rank bigint not null,
    stirs_at bigint not null,
    ripe_at bigint not null,
    reserved boolean not null,
    primary key (repository, id)
);
create index tickets_by_holder on tickets (repository, holder_key);
create index tickets_by_stirring on tickets (repository, stirs_at);

create table wants (
    repository integer not null,
    key text collate "C" not null, ticket_id text collate "C" not null,
    primary key (repository, key, ticket_id)
);
create index wants_by_ticket on wants (repository, ticket_id);

-- Who waits, and who follows: hints that need not survive a crash of the server.
create unlogged table waiters (
    address text collate "C" primary key,
    until timestamptz not null
);
create unlogged table followers (
    repository integer not null,
    address text collate "C" not null,
    until timestamptz not null,
    primary key (repository, address)
);

-- What every transaction begins with.

create type head as (
    last_seq bigint, last_at bigint, last_token bigint, stirs_at bigint,
    now bigint, has_followers boolean, sign text, moved_to text
);

create function head(number integer) returns setof head language sql stable as $$
    select coalesce(last.seq, 0), coalesce(last.at, 0), coalesce(last.token, 0),
        (select stirs_at from tickets where repository = number order by stirs_at limit 1),
        (extract(epoch from clock_timestamp()) * 1000000)::bigint,
        exists (
            select from followers where repository = number and until > clock_timestamp()
        ),
        current_setting('holdfast.sign', true), moved_to
    from repositories left join lateral (
        select seq, at, token from events where repository = number order by seq desc limit 1
    ) as last on true
    where id = number
$$;

-- To read. In a function the query is planned once for a session.
create function look(number integer) returns head language plpgsql stable as $$
declare found head;
begin
    select * into found from head(number);
    return found;
end $$;

-- To decide: nobody else does for this repository until the transaction ends. The head is read
-- after the lock was taken, by a statement of its own, which sees all that was committed until then.
create function enter(number integer) returns head language plpgsql as $$
declare found head;
begin
    perform pg_advisory_xact_lock(1752132708, number);
    select * into found from head(number);
    return found;
end $$;
