//! The statements, each prepared once for every connection.
//!
//! `{s}` stands for the schema's name, which needs no quotes.

/// Settings of every session of ours.
///
/// All our statements go by index: the statistics of a fresh table must not talk the planner out
/// of it, and so one plan will do for all parameters. A session that falls silent inside a transaction would hold the counter's lock, so the
/// server ends it. There is no `statement_timeout`: it would cut short the wait for synchronous
/// standbys, and the server would then report a success that it does not have.
///
/// A standby is not even read from: it may lag behind what its primary acknowledged.
pub(super) const SETTINGS: &str = "
    DO $$ BEGIN
        IF pg_is_in_recovery() THEN
            RAISE EXCEPTION 'this server is a standby' USING ERRCODE = 'read_only_sql_transaction';
        END IF;
    END $$;
    SET idle_in_transaction_session_timeout = '3s';
    SET lock_timeout = '3s'; SET statement_timeout = 0;
    SET default_transaction_isolation = 'read committed';
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan; SET jit = off;
    SET bytea_output = 'hex';
    SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)";

/// Locks the counter until the transaction ends (safety rule 26).
pub(super) const LOCK: &str = "SELECT revision, floor, bytes FROM {s}.counter FOR UPDATE";

/// The keys of a group that are there; a statement of its own, so that its snapshot is taken when
/// the lock is held.
pub(super) const SEEK: &str = "
    SELECT k.at, i.revision, CASE WHEN k.wants THEN i.value END
    FROM unnest($1::bytea[], $2::bool[]) WITH ORDINALITY AS k(key, wants, at)
    JOIN {s}.items i ON i.key = k.key";

/// Where the write ids of a group were seen.
pub(super) const SEEN: &str = "
    SELECT w.at, max(c.revision)
    FROM unnest($1::uuid[]) WITH ORDINALITY AS w(write_id, at)
    JOIN {s}.commits c ON c.write_id = w.write_id
    GROUP BY w.at";

/// Stores a whole group. All parts see the state before it; each key's last row is its state.
pub(super) const STORE: &str = "
    WITH n AS MATERIALIZED (
        SELECT * FROM unnest($6::bigint[], $7::smallint[], $8::bytea[], $9::bytea[],
            $10::bool[], $11::bigint[], $12::bytea[], $13::bool[])
        AS n(revision, place, key, value, is_stored, was_revision, was_value, is_last)
    ), new_commits AS (
        INSERT INTO {s}.commits (revision, write_id, bytes)
        SELECT * FROM unnest($3::bigint[], $4::uuid[], $5::bigint[])
    ), new_changes AS (
        INSERT INTO {s}.changes (revision, place, key, value, was_revision, was_value)
        SELECT n.revision, n.place, n.key, n.value,
            CASE WHEN n.is_stored THEN i.revision ELSE n.was_revision END,
            CASE WHEN n.is_stored THEN i.value ELSE n.was_value END
        FROM n LEFT JOIN {s}.items i ON n.is_stored AND i.key = n.key
    ), removed AS (
        DELETE FROM {s}.items i USING n
        WHERE n.is_last AND n.value IS NULL AND i.key = n.key
    ), put AS (
        INSERT INTO {s}.items (key, revision, value)
        SELECT key, revision, value FROM n WHERE is_last AND value IS NOT NULL
        ON CONFLICT (key) DO UPDATE SET revision = excluded.revision, value = excluded.value
    )
    UPDATE {s}.counter SET revision = $1::bigint, bytes = $2::bigint
    RETURNING pg_notify('{s}', ($1::bigint)::text)";

/// One key as it is now; always one row.
pub(super) const GET: &str = "
    SELECT c.revision, i.revision, i.value
    FROM {s}.counter c LEFT JOIN {s}.items i ON i.key = $1";

/// One page of the keys from `$1` to before `$2`, at revision `$4` or now: what was not changed
/// since, and what was replaced first since. A row more than `$3` shows that there are more, and
/// bytes are counted before any value is fetched.
pub(super) const SCAN: &str = "
    SELECT c.revision, c.floor, p.key, p.revision, p.value, p.found
    FROM {s}.counter c LEFT JOIN LATERAL (
        SELECT * FROM (
            SELECT key, revision, value, count(*) OVER () AS found, coalesce(sum(
                octet_length(key) + octet_length(value)
            ) OVER (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
            FROM (
                (SELECT key, revision, value FROM {s}.items
                WHERE key >= $1 AND key < $2 AND revision <= coalesce($4::bigint, c.revision)
                ORDER BY key LIMIT $3::bigint + 1)
                UNION ALL
                (SELECT key, was_revision, was_value FROM (
                    SELECT DISTINCT ON (key) key, was_revision, was_value FROM {s}.changes
                    WHERE revision > coalesce($4::bigint, c.revision) AND key >= $1 AND key < $2
                    ORDER BY key, revision
                ) replaced WHERE was_revision IS NOT NULL ORDER BY key LIMIT $3::bigint + 1)
                ORDER BY key LIMIT $3::bigint + 1
            ) both_parts
        ) counted WHERE before < $5::bigint
    ) p ON true ORDER BY p.key";

/// Where a write id was seen, if it is still remembered.
pub(super) const WRITTEN: &str = "
    SELECT o.revision, (SELECT max(c.revision) FROM {s}.commits c
        WHERE c.write_id = $1 AND c.revision > o.floor)
    FROM {s}.counter o";

/// Writes the counter as it is: when that is committed, so is everything before it, on every standby
/// that commits wait for.
pub(super) const TOUCH: &str = "UPDATE {s}.counter SET revision = revision RETURNING revision";

/// The changes of the keys from `$2` to before `$3` after revision `$1`, `$4` rows or `$5` bytes
/// of them; always at least one row.
pub(super) const CHANGES: &str = "
    SELECT c.revision, c.floor, h.revision, h.key, h.value, h.found
    FROM {s}.counter c LEFT JOIN LATERAL (
        SELECT * FROM (
            SELECT revision, place, key, value, count(*) OVER () AS found, coalesce(sum(
                octet_length(key) + coalesce(octet_length(value), 0)
            ) OVER (ORDER BY revision, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
                AS before
            FROM (
                SELECT revision, place, key, value FROM {s}.changes
                WHERE revision > $1 AND revision <= c.revision AND key >= $2 AND key < $3
                ORDER BY revision, place LIMIT $4::bigint + 1
            ) part
        ) counted WHERE before < $5::bigint
    ) h ON true ORDER BY h.revision, h.place";

/// How far the store is and how much history it keeps.
pub(super) const POLL: &str = "
    SELECT revision, floor, bytes - floor_bytes AS kept FROM {s}.counter";

/// The last commit that may go so that at most `$1` bytes of history stay.
pub(super) const OLDEST: &str = "
    SELECT o.revision, c.revision FROM {s}.counter o, {s}.commits c
    WHERE c.revision > o.floor AND c.bytes >= o.bytes - $1::bigint
    ORDER BY c.revision LIMIT 1";

/// Raises the floor; no row if it is not below `$1`, or `$1` lies in the future.
pub(super) const RAISE: &str = "
    UPDATE {s}.counter SET floor = $1::bigint,
        floor_bytes = (SELECT max(bytes) FROM {s}.commits WHERE revision = $1)
    WHERE floor < $1 AND revision >= $1";

/// Removes some of the oldest changes up to `$1`.
pub(super) const FORGET_CHANGES: &str = "
    DELETE FROM {s}.changes WHERE revision <= least($1::bigint,
        (SELECT revision FROM {s}.changes ORDER BY revision LIMIT 1) + 1024)";

/// Removes some of the oldest commits up to `$1`.
pub(super) const FORGET_COMMITS: &str = "
    DELETE FROM {s}.commits WHERE revision <= least($1::bigint,
        (SELECT revision FROM {s}.commits ORDER BY revision LIMIT 1) + 1024)";

/// What the server is and how it keeps its word.
pub(super) const FACTS: &str = "
    SELECT current_setting('server_version_num')::int,
        current_setting('server_version'),
        pg_is_in_recovery(),
        current_setting('transaction_read_only') = 'on',
        current_setting('fsync') = 'on',
        current_setting('full_page_writes') = 'on',
        current_setting('synchronous_standby_names'),
        current_user::text";

/// Who follows the server, and what each has of a commit that was acknowledged. Backups and those
/// who only subscribe to changes can never take over. Who may not look gets rows without details.
pub(super) const STANDBYS: &str = "
    SELECT coalesce(r.application_name, 'one that is not named to us'), r.sync_state
    FROM pg_stat_replication r
    WHERE coalesce(r.state, 'streaming') IN ('streaming', 'catchup') AND NOT EXISTS (
        SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
    ORDER BY 1";

/// One after another makes a schema of the newest version; `migrations[n]` leads to version n + 1.
pub(super) const MIGRATIONS: &[&str] = &["
    CREATE TABLE {s}.meta (version integer NOT NULL);
    INSERT INTO {s}.meta VALUES (0);
    CREATE TABLE {s}.counter (
        revision bigint NOT NULL, floor bigint NOT NULL,
        bytes bigint NOT NULL, floor_bytes bigint NOT NULL
    ) WITH (fillfactor = 10);
    CREATE UNIQUE INDEX counter_has_one_row ON {s}.counter ((true));
    INSERT INTO {s}.counter VALUES (0, 0, 0, 0);
    CREATE TABLE {s}.items (
        key bytea PRIMARY KEY, revision bigint NOT NULL, value bytea NOT NULL
    ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
    CREATE TABLE {s}.commits (
        revision bigint PRIMARY KEY, write_id uuid NOT NULL, bytes bigint NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    CREATE INDEX commits_by_write_id ON {s}.commits (write_id);
    CREATE TABLE {s}.changes (
        revision bigint, place smallint, key bytea NOT NULL, value bytea,
        was_revision bigint, was_value bytea, PRIMARY KEY (revision, place)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);"];
