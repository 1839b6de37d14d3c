-- Each statement has a name; `:repository` is the number of the repository, and `%s` a value.

-- name: connect
set search_path = holdfast;
set default_transaction_isolation = 'read committed';
set enable_seqscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set enable_bitmapscan = off;
set jit = off;
set lock_timeout = :wait;
set idle_in_transaction_session_timeout = :inside;
select set_config('synchronous_commit', 'on', false)
    where current_setting('synchronous_commit') = 'off';
select set_config('holdfast.sign', :sign, false);
select current_setting('server_version_num')::integer, current_setting('server_encoding'),
    to_regclass('holdfast.migrations') is not null, pg_backend_pid();

-- name: format
select max(version) from migrations

-- name: find
select id from repositories where name = %s

-- name: begin_repository
insert into repositories (name) values (%s) on conflict (name) do nothing

-- name: enter
begin isolation level read committed;
select * from enter(:repository)

-- name: enter_within
begin isolation level read committed;
set local lock_timeout = :wait;
set local idle_in_transaction_session_timeout = :inside;
select * from enter(:repository)

-- name: read
begin isolation level repeatable read read only;
select * from look(:repository)

-- name: anchor
select boot, uptime, ledger, slept, asleep from repositories where id = :repository

-- name: put_anchor
update repositories set boot = %s, uptime = %s, ledger = %s, slept = %s, asleep = %s
where id = :repository

-- name: grant
select grant_id, seq, expires_at, idle_at, slept from live
where repository = :repository and key = %s and grant_id = %s

-- name: event
select seq, type, version, at, data, 0 from events where repository = :repository and seq = %s

-- name: some_events
select seq, type, version, at, data, 0 from events
where repository = :repository and seq = any(%s)

-- name: lost
select e.seq, type, version, at, data, 0
from lost l join events e on e.repository = l.repository and e.seq = l.seq
where l.repository = :repository and id = %s

-- name: all_grants
select grant_id, seq, expires_at, idle_at, slept from live
where repository = :repository and key > 'grant:' and key < 'grant;' and seq is not null

-- name: some_grants
select seq, grant_id from live
where repository = :repository and seq > %s and seq is not null order by seq limit %s

-- name: grants_of
select grant_id, seq, expires_at, idle_at, slept from live
where repository = :repository and mode = %s and seq is not null

-- name: grants_of_agents
select g.grant_id, g.seq, g.expires_at, g.idle_at, g.slept
from live a join live g
    on g.repository = a.repository and g.key = 'grant:' || a.grant_id and g.grant_id = a.grant_id
where a.repository = :repository and a.key >= %s and a.key < %s

-- name: held_at
select key, mode, grant_id from live where repository = :repository and key = %s

-- name: held_inside
select key, mode, grant_id from live where repository = :repository and key > %s and key < %s

-- name: held_next
select key, mode, grant_id from live
where repository = :repository and (key, grant_id) > (%s, %s) and key < %s
order by key, grant_id limit %s

-- name: held_by_inode
select inode, mode, grant_id from live where repository = :repository and inode = any(%s)

-- name: count_held
select count(*) from (
    (select from live
        where repository = :repository and key = any(%s) and (%s or mode = 'w'))
    union all
    (select
        from unnest(%s::text[], %s::text[]) as range(low, high) cross join lateral (
            select from live
            where repository = :repository and (%s or mode = 'w')
                and key > range.low collate "C" and key < range.high collate "C"
            limit %s
        ) as l)
    limit %s
) as found

-- name: note
select e.seq, type, version, at, data, 0
from notes n join events e on e.repository = n.repository and e.seq = n.seq
where n.repository = :repository and name = %s

-- name: notes
select e.seq, type, version, at, data, 0
from notes n join events e on e.repository = n.repository and e.seq = n.seq
where n.repository = :repository and name >= %s and name < %s order by e.seq

-- name: ticket
select id, seq, reserved from tickets where repository = :repository and id = %s

-- name: wanting_at
select rank, seq, ripe_at, reserved, id
from wants w join tickets t on t.repository = :repository and t.id = w.ticket_id
where w.repository = :repository and w.key = %s

-- name: wanting_inside
select rank, seq, ripe_at, reserved, id
from wants w join tickets t on t.repository = :repository and t.id = w.ticket_id
where w.repository = :repository and w.key > %s and w.key < %s

-- name: waiting
select id, seq, reserved from tickets where repository = :repository and holder_key = %s order by rank

-- name: queue
select id, seq, reserved from tickets where repository = :repository order by rank

-- name: history
select e.seq, type, version, at, data, coalesce(count, 0)
from events e left join repeats r on r.repository = e.repository and r.seq = e.seq
where e.repository = :repository and e.seq > %s order by e.seq limit %s

-- name: acquired
with event as (
    insert into events values (:repository, %s, %s, %s, %s, %s, %s)
)
insert into live values :rows

-- name: grant_itself
(:repository, %s, %s, %s, %s, %s, %s, %s, null)

-- name: key_of_grant
(:repository, %s, %s, %s, null, null, null, null, %s)

-- name: released
with event as (
    insert into events values (:repository, %s, %s, %s, %s, %s, %s)
)
delete from live where repository = :repository and grant_id = %s and key = any(%s)

-- name: add_event
insert into events values (:repository, %s, %s, %s, %s, %s, %s)

-- name: put_grant
insert into live values :rows

-- name: remove_grant
delete from live where repository = :repository and grant_id = %s and key = any(%s)

-- name: extend_grant
update live set expires_at = %s, idle_at = %s, slept = %s
where repository = :repository and key = %s and grant_id = %s

-- name: lose_grant
insert into lost values (:repository, %s, %s)

-- name: said
select once from repeats where repository = :repository and once = any(%s)

-- name: say_again
update repeats set count = count + 1, last_at = %s where repository = :repository and once = %s

-- name: say
insert into repeats values (:repository, %s, %s, 0, %s)

-- name: put_note
insert into notes values (:repository, %s, %s)
on conflict (repository, name) do update set seq = excluded.seq

-- name: drop_note
delete from notes where repository = :repository and name = %s

-- name: put_ticket
with ticket as (
    insert into tickets values (:repository, %s, %s, %s, %s, %s, %s, false)
)
insert into wants select :repository, key, %s from unnest(%s::text[]) as wanted(key)

-- name: event_of_ticket
select e.seq, type, version, at, data, 0
from tickets t join events e on e.repository = t.repository and e.seq = t.seq
where t.repository = :repository and t.id = %s

-- name: reserve_ticket
update tickets set reserved = true, ripe_at = 0, rank = %s
where repository = :repository and id = %s

-- name: drop_ticket
with ticket as (
    delete from tickets where repository = :repository and id = %s
)
delete from wants where repository = :repository and ticket_id = %s

-- name: trim_events
delete from events where repository = :repository and seq < %s
    and seq < (select max(seq) from events where repository = :repository)
    and seq not in (
        select seq from live where repository = :repository and seq is not null
        union all select seq from tickets where repository = :repository
        union all select seq from notes where repository = :repository
    )

-- name: trim_repeats
delete from repeats where repository = :repository and seq < %s

-- name: trim_lost
delete from lost where repository = :repository and seq < %s

-- name: wake
select pg_notify(%s, %s)

-- name: has_waiter
select coalesce(
    (select until > clock_timestamp() from waiters where address = %s),
    pg_postmaster_start_time() > clock_timestamp() - %s * interval '1 second'
)

-- name: wait
insert into waiters values (%s, clock_timestamp() + %s * interval '1 second')
on conflict (address) do update set until = excluded.until

-- name: wait_no_more
update waiters set until = clock_timestamp() where address = %s

-- name: follow
insert into followers values (:repository, %s, clock_timestamp() + %s * interval '1 second')
on conflict (repository, address) do update set until = excluded.until

-- name: follow_no_more
delete from followers where repository = :repository and address = %s

-- name: forget_waiters
delete from waiters where until < clock_timestamp() - interval '1 day'

-- name: forget_followers
delete from followers where until < clock_timestamp() - interval '1 day'

-- name: put_move
update repositories set moved_to = %s where id = :repository

-- name: has_note
select 1 from notes where repository = :repository and name = %s

-- name: add_mark
insert into notes values (:repository, %s, 0) on conflict do nothing

-- name: next_events
select seq, at, token, type, version, data from events
where repository = :repository and seq > %s order by seq limit %s

-- name: next_repeats
select once, seq, count, last_at from repeats
where repository = :repository and once > %s order by once limit %s

-- name: next_lost
select id, seq from lost where repository = :repository and id > %s order by id limit %s

-- name: next_notes
select name, seq from notes
where repository = :repository and name > %s and seq > 0 order by name limit %s

-- name: copy_events
copy events (repository, seq, at, token, type, version, data) from stdin

-- name: copy_repeats
copy repeats (repository, once, seq, count, last_at) from stdin

-- name: copy_lost
copy lost (repository, id, seq) from stdin

-- name: copy_notes
copy notes (repository, name, seq) from stdin

-- name: clear
delete from events where repository = :repository;
delete from repeats where repository = :repository;
delete from lost where repository = :repository;
delete from notes where repository = :repository;
delete from live where repository = :repository;
delete from tickets where repository = :repository;
delete from wants where repository = :repository
