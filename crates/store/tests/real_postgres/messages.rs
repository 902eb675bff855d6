//! What is said when a store cannot be opened: each reason in its own words, with the remedy.

use std::fs;

use sterna_store::Postgres;

use crate::{
    papers::Authority,
    proxy::Proxy,
    server::{ADMIN, Server, url_at},
};

async fn refused(url: &str) -> String {
    match Postgres::open(url).await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{url} was opened"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_reason_has_its_own_message() {
    let server = Server::start(&[]);
    let address = server.address();
    let admin = server.admin().await;
    admin.batch_execute("CREATE USER guest PASSWORD 'guest'").await.unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();

    let nobody = refused(&format!("postgres://{ADMIN}:secret@{free}/postgres")).await;
    let expected = "start the server, or correct host and port in the URL";
    assert_eq!(nobody, format!("cannot reach postgres://{free}/postgres; {expected}"));

    let expected = format!(
        "postgres://{address}/postgres does not let {ADMIN} in; correct user and password in the URL"
    );
    assert_eq!(refused(&server.url("a").replace("secret", "wrong")).await, expected);
    assert_eq!(refused(&server.url("a").replace(":secret", "")).await, expected);

    let expected = format!(
        "postgres://{address}/nowhere: there is no database nowhere; create it, or correct its \
         name in the URL"
    );
    assert_eq!(refused(&server.url("a").replace("/postgres", "/nowhere")).await, expected);

    let guest = format!("postgres://guest:guest@{address}/postgres?schema=theirs");
    let expected = format!(
        "postgres://{address}/postgres: guest may not make or use the schema theirs; as an \
         administrator: CREATE SCHEMA IF NOT EXISTS theirs AUTHORIZATION guest"
    );
    assert_eq!(refused(&guest).await, expected);
    admin.batch_execute("CREATE SCHEMA IF NOT EXISTS theirs AUTHORIZATION guest").await.unwrap();
    drop(Postgres::open(&guest).await.expect("the remedy helps"));

    drop(Postgres::open(&server.url("newer")).await.unwrap());
    admin.batch_execute("UPDATE newer.meta SET version = 99").await.unwrap();
    let expected = format!(
        "postgres://{address}/postgres: the schema newer has version 99, this build reads up to 1; \
         use the newer sterna that wrote it"
    );
    assert_eq!(refused(&server.url("newer")).await, expected);

    let expected = format!(
        "postgres://{address}/postgres offers no TLS; switch it on there, or write sslmode=disable \
         in the URL"
    );
    assert_eq!(refused(&format!("{}&sslmode=require", server.url("a"))).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_without_a_line_is_not_sent_to_a_tls_that_is_not_there() {
    let server = Server::start(&[]);
    let lines = "host all admin 127.0.0.1/32 scram-sha-256\nhost other all 127.0.0.1/32 reject\n";
    fs::write(server.data().join("pg_hba.conf"), lines).unwrap();
    tokio::task::block_in_place(|| {
        server.down();
        server.up();
    });
    let address = server.address();
    // It has no line for the one database, and a line that rejects for the other.
    for (database, mode) in [("postgres", "disable"), ("postgres", "prefer"), ("other", "disable")]
    {
        let url = format!("postgres://stranger:x@{address}/{database}?sslmode={mode}");
        let error = Postgres::open(&url).await.unwrap_err();
        let expected = format!(
            "postgres://{address}/{database} does not let stranger in; correct user and password \
             in the URL"
        );
        assert_eq!(error.to_string(), expected, "{mode}");
        let says = "add a line for this user, database and host to the server's pg_hba.conf";
        assert!(crate::told(&error).contains(says), "{mode}: {}", crate::told(&error));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tls_is_checked_as_far_as_the_url_asks() {
    let root = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let server = Server::start(&[]);
    server.give("server.crt", &root.cert.pem());
    server.give("server.key", &root.signing_key.serialize_pem());
    let admin = server.admin().await;
    admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
    drop(admin);
    tokio::task::block_in_place(|| {
        server.down();
        server.up();
    });
    server.permit("hostnossl all all 127.0.0.1/32 reject");
    let file = server.data().join("server.crt");
    let url = |host: &str, options: &str| {
        format!("{}&{options}", server.url("tls").replace("127.0.0.1", host))
    };
    let roots = format!("sslrootcert={}", file.display());
    for (host, options) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&{roots}")),
        ("localhost", format!("sslmode=verify-full&{roots}")),
    ] {
        if let Err(error) = Postgres::open(&url(host, &options)).await {
            panic!("{options}: {}", crate::told(&error));
        }
    }
    let address = server.address();
    let expected = format!(
        "postgres://{address}/postgres takes only TLS; write sslmode=verify-full or \
         sslmode=require in the URL"
    );
    assert_eq!(refused(&url("127.0.0.1", "sslmode=disable")).await, expected);
    let expected = format!(
        "the certificate of postgres://{address}/postgres is not trusted; name its root with \
         sslrootcert=FILE, and the host as the certificate does"
    );
    assert_eq!(refused(&url("127.0.0.1", &format!("sslmode=verify-full&{roots}"))).await, expected);
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    server.give("stranger.crt", &stranger.cert.pem());
    let roots = format!("sslrootcert={}", server.data().join("stranger.crt").display());
    assert_eq!(refused(&url("127.0.0.1", &format!("sslmode=verify-ca&{roots}"))).await, expected);

    let empty = server.data().join("empty.crt");
    fs::write(&empty, "").unwrap();
    let expected = format!(
        "the root certificates in {} cannot be used; name a PEM file with sslrootcert=FILE",
        empty.display()
    );
    let options = format!("sslmode=verify-full&sslrootcert={}", empty.display());
    assert_eq!(refused(&url("127.0.0.1", &options)).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_asks_who_we_are_is_shown_a_certificate() {
    let (ours, strange) = (Authority::new(), Authority::new());
    let server = Server::start(&[]);
    let (certificate, key) = ours.issue("localhost");
    for (name, text) in
        [("server.crt", &certificate), ("server.key", &key), ("root.crt", &ours.certificate)]
    {
        server.give(name, text);
    }
    for (name, authority) in [("me", &ours), ("stranger", &strange)] {
        let (certificate, key) = authority.issue(ADMIN);
        server.give(&format!("{name}.crt"), &certificate);
        server.give(&format!("{name}.key"), &key);
    }
    let admin = server.admin().await;
    admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
    admin.batch_execute("ALTER SYSTEM SET ssl_ca_file = 'root.crt'").await.unwrap();
    drop(admin);
    tokio::task::block_in_place(|| {
        server.down();
        server.up();
    });
    // By the certificate alone: whoever it names is let in without a password.
    server.permit("hostssl all all 127.0.0.1/32 cert");
    let (address, data) = (server.address(), server.data());
    let url = |certificate: &str, key: &str| {
        let file = |name: &str| data.join(name).display().to_string();
        format!(
            "postgres://{ADMIN}@{address}/postgres?sslmode=verify-ca&sslrootcert={}&sslcert={}&sslkey={}",
            file("root.crt"),
            file(certificate),
            file(key)
        )
    };
    let store = match Postgres::open(&url("me.crt", "me.key")).await {
        Ok(store) => store,
        Err(error) => panic!("{}", crate::told(&error)),
    };
    drop(store);
    let expected = format!(
        "postgres://{address}/postgres asks for a certificate that it trusts; name one with \
         sslcert=FILE, and its key with sslkey=FILE"
    );
    assert_eq!(refused(&format!("{}&sslmode=require", server.url("tls"))).await, expected);
    assert_eq!(refused(&url("stranger.crt", "stranger.key")).await, expected);
    for (certificate, key, named) in [
        ("me.crt", "me.crt", "me.crt"),
        ("nowhere", "me.key", "nowhere"),
        ("me.crt", "stranger.key", "stranger.key"),
    ] {
        let expected = format!(
            "{} cannot be shown to the server; name PEM files with sslcert=FILE and sslkey=FILE, \
             the key without a password",
            data.join(named).display()
        );
        assert_eq!(refused(&url(certificate, key)).await, expected);
    }
}

/// No server that old can be had any more, so a proxy changes what a real one says of itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_too_old_is_refused() {
    let server = Server::start(&[]);
    let asked =
        "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
    let row = server.admin().await.query_one(asked, &[]).await.unwrap();
    let (number, name): (i32, String) = (row.get(0), row.get(1));
    let older = format!("12.{}", name.split_once('.').unwrap().1);
    let said = vec![
        [number.to_be_bytes().to_vec(), 120_019_i32.to_be_bytes().to_vec()],
        [name.into_bytes(), older.clone().into_bytes()],
    ];
    let proxy = Proxy::before_other(&server.address(), "COMMIT", 1, said).await;
    let address = proxy.address();
    let expected = format!(
        "postgres://{address}/postgres runs version {older}, and 13 or later is needed; upgrade the \
         server"
    );
    assert_eq!(refused(&url_at(address, "old")).await, expected);
    // Nothing was made there.
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname = 'old'";
    let row = server.admin().await.query_one(made, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn settings_that_void_a_promise_are_told() {
    let server = Server::start(&["fsync = off", "full_page_writes = off"]);
    let store = Postgres::open(&server.url("careless")).await.unwrap();
    let warnings = sterna_store::Store::warnings(&store);
    assert_eq!(
        warnings,
        [
            "PostgreSQL runs with fsync = off: a crash of its machine loses or damages what it \
             acknowledged; set fsync = on",
            "PostgreSQL runs with full_page_writes = off: a crash of its machine may damage what \
             it acknowledged; set full_page_writes = on",
        ]
    );
    drop(store);
    let server = Server::start(&["synchronous_commit = off"]);
    let store = Postgres::open(&server.url("careful")).await.unwrap();
    assert_eq!(sterna_store::Store::warnings(&store), Vec::<String>::new());
}
