//! What is said when a store cannot be opened: each reason in its own words, with the remedy.

use std::fs;

use sterna_store::{Commit, Etcd, Outcome, Store};

use crate::{cluster::Cluster, papers::Authority, proxy::Proxy, told, write_id};

async fn refused(url: &str) -> String {
    match Etcd::open(url).await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{url} was opened"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_reason_has_its_own_message() {
    let cluster = Cluster::start(1, &[]);
    let address = cluster.address(0);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();

    let nobody = refused(&format!("etcd://{free}")).await;
    let expected = "start the server, or correct host and port in the URL";
    assert_eq!(nobody, format!("cannot reach etcd://{free}/sterna; {expected}"));
    let with_another = format!("etcd://{free},{address}/some");
    drop(Etcd::open(&with_another).await.expect("one member is there"));

    let expected = format!(
        "etcd://{address}/sterna offers no TLS; switch it on there, or write sslmode=disable in \
         the URL"
    );
    assert_eq!(refused(&format!("etcd://{address}?sslmode=require")).await, expected);

    drop(Etcd::open(&cluster.url("newer")).await.unwrap());
    cluster.tell("put newer/format 99");
    let expected = format!(
        "etcd://{address}/newer: the schema newer/ has version 99, this build reads up to 2; use \
         the newer sterna that wrote it"
    );
    assert_eq!(refused(&cluster.url("newer")).await, expected);
    cluster.tell("put older/format 1");
    let error = Etcd::open(&cluster.url("older")).await.unwrap_err();
    let expected = format!(
        "cannot open the store on etcd://{address}/older; see the cause: the store under older/ \
         has layout 1, and this build reads only 2; name another prefix in the URL, or remove that \
         store with the build that made it"
    );
    assert_eq!(told(&error), expected);
    cluster.tell("put strange/format yes");
    let expected = format!("cannot open the store on etcd://{address}/strange; see the cause");
    assert_eq!(refused(&cluster.url("strange")).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn members_that_ask_who_we_are_are_shown_a_certificate() {
    let (ours, strange) = (Authority::new(), Authority::new());
    let settings = [
        "--cert-file",
        "FOLDER/server.crt",
        "--key-file",
        "FOLDER/server.key",
        "--client-cert-auth",
        "--trusted-ca-file",
        "FOLDER/root.crt",
    ];
    let cluster = Cluster::start_with(1, &settings, "https", |folder| {
        fs::write(folder.join("root.crt"), &ours.certificate).unwrap();
        for (name, authority) in [("server", &ours), ("client", &ours), ("stranger", &strange)] {
            let (certificate, key) = authority.issue(name);
            fs::write(folder.join(format!("{name}.crt")), certificate).unwrap();
            fs::write(folder.join(format!("{name}.key")), key).unwrap();
        }
    });
    let address = cluster.address(0);
    let url = |name: &str| {
        let file = |name: &str| cluster.folder().join(name).display().to_string();
        let (certificate, key) = (file(&format!("{name}.crt")), file(&format!("{name}.key")));
        let root = file("root.crt");
        format!(
            "etcd://{address}/me?sslmode=verify-ca&sslrootcert={root}&sslcert={certificate}&sslkey={key}"
        )
    };
    let store = match Etcd::open(&url("client")).await {
        Ok(store) => store,
        Err(error) => panic!("{}", told(&error)),
    };
    drop(store.commit(Commit::new(write_id(0, 1)).put("/a", "1")).await.unwrap());
    let expected = format!(
        "etcd://{address}/me asks for a certificate that it trusts; name one with sslcert=FILE, \
         and its key with sslkey=FILE"
    );
    assert_eq!(refused(&url("stranger")).await, expected);
    assert_eq!(refused(&format!("etcd://{address}/me?sslmode=require")).await, expected);
    let expected = format!(
        "etcd://{address}/me takes only TLS; write sslmode=verify-full or sslmode=require in the URL"
    );
    assert_eq!(refused(&format!("etcd://{address}/me")).await, expected);
}

/// No etcd that old can be had any more, so a proxy changes what a real one says of itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_that_is_too_old_is_refused() {
    let cluster = Cluster::start(1, &[]);
    let version = Etcd::open(&cluster.url("new")).await.unwrap().about().engine;
    let version = version.strip_prefix("etcd ").unwrap().to_owned();
    let older = version.replacen(&version[..3], "3.3", 1);
    let said = vec![[version.into_bytes(), older.clone().into_bytes()]];
    let proxy = Proxy::before_other(&cluster.address(0), "the marked one", 1, said).await;
    let address = proxy.address();
    let expected = format!(
        "etcd://{address}/old runs version {older}, and 3.4 or later is needed; upgrade the server"
    );
    assert_eq!(refused(&format!("etcd://{address}/old")).await, expected);
    // Nothing was made there.
    let address = cluster.address(0);
    let (is_good, left) = cluster.ctl(&["get", "--prefix", "old", "--endpoints", &address]);
    assert!(is_good && left.trim().is_empty(), "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn users_are_let_in_as_far_as_they_may() {
    let cluster = Cluster::start(1, &[]);
    let address = cluster.address(0);
    let url = |login: &str, prefix: &str| format!("etcd://{login}@{address}/{prefix}");
    let early = Etcd::open(&url("me:secret", "mine")).await.unwrap();
    let expected = "etcd has no users: everybody who reaches it may change the store; make users \
                    and `etcdctl auth enable`, or leave user and password out of the URL";
    assert_eq!(early.warnings(), [expected]);
    for arguments in [
        "user add root:root",
        "role add root",
        "user grant-role root root",
        "user add me:secret",
        "auth enable",
    ] {
        cluster.tell(arguments);
    }
    for (login, user) in [("me:wrong", "me"), ("you:secret", "you"), ("me", "me")] {
        let expected = format!(
            "etcd://{address}/mine does not let {user} in; correct user and password in the URL"
        );
        assert_eq!(refused(&url(login, "mine")).await, expected);
    }
    let expected = format!(
        "etcd://{address}/mine does not let a caller without a name in; correct user and password \
         in the URL"
    );
    assert_eq!(refused(&cluster.url("mine")).await, expected);
    let expected = format!(
        "etcd://{address}/mine: me may not read and write keys that begin with mine/; as root: \
         etcdctl role add sterna, etcdctl role grant-permission sterna --prefix=true readwrite \
         mine/, etcdctl user grant-role me sterna"
    );
    assert_eq!(refused(&url("me:secret", "mine")).await, expected);
    for arguments in [
        "role add sterna",
        "role grant-permission sterna --prefix=true readwrite mine/",
        "user grant-role me sterna",
    ] {
        cluster.tell(&format!("{arguments} --user root:root"));
    }
    let store = Etcd::open(&url("me:secret", "mine")).await.expect("the remedy helps");
    assert_eq!(store.warnings(), Vec::<String>::new());
    let put = |number| Commit::new(write_id(0, number)).put("/a", number.to_string());
    let Outcome::Applied(first) = store.commit(put(1)).await.unwrap() else {
        panic!("no conflict")
    };
    let mut watch = store.watch("/", first).await.unwrap();
    // The one that was opened before there were users logs in by itself.
    drop(early.commit(put(2)).await.unwrap());
    // A member that was killed has forgotten who was logged in.
    tokio::task::block_in_place(|| {
        cluster.kill(0);
        cluster.launch(0);
    });
    drop(crate::ledger::until_answered(&store, put(3)).await);
    for value in ["2", "3"] {
        let changes = watch.next().await.unwrap();
        assert_eq!(changes.changes[0].value.as_deref(), Some(value.as_bytes()));
    }
    store.compact(first).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_without_a_majority_says_so() {
    let cluster = Cluster::start(3, &[]);
    let store = Etcd::open(&cluster.url("minority")).await.unwrap();
    let leader = cluster.leader();
    for step in [0, 1] {
        tokio::task::block_in_place(|| cluster.kill((leader + step) % cluster.size()));
    }
    let left = cluster.address((leader + 2) % cluster.size());
    let expected = format!(
        "etcd://{left}/minority has no leader; start more than half of its members, and let them \
         reach each other"
    );
    // It may take it some time to notice that it is alone.
    let url = format!("etcd://{left}/minority");
    while Etcd::open(&url).await.is_ok() {}
    assert_eq!(refused(&url).await, expected);
    let says = "etcd has no leader; start more than half of its members, and let them reach each";
    let commit = Commit::new(write_id(0, 1)).put("/a", "1");
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, sterna_store::StoreError::Unavailable(_)), "{}", told(&error));
    let read = store.get("/a").await.unwrap_err();
    let all = [told(&error), told(&read)].join("; ");
    assert!(all.contains(says) || all.contains("no connection to"), "{all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tls_is_checked_as_far_as_the_url_asks() {
    let names = vec!["localhost".to_owned()];
    let root = rcgen::generate_simple_self_signed(names.clone()).unwrap();
    let stranger = rcgen::generate_simple_self_signed(names).unwrap();
    let settings = ["--cert-file", "FOLDER/server.crt", "--key-file", "FOLDER/server.key"];
    let cluster = Cluster::start_with(1, &settings, "https", |folder| {
        fs::write(folder.join("server.crt"), root.cert.pem()).unwrap();
        fs::write(folder.join("server.key"), root.signing_key.serialize_pem()).unwrap();
        fs::write(folder.join("stranger.crt"), stranger.cert.pem()).unwrap();
        fs::write(folder.join("empty.crt"), "").unwrap();
    });
    let address = cluster.address(0);
    let url = |host: &str, options: &str| {
        format!("etcd://{}/tls?{options}", address.replace("127.0.0.1", host))
    };
    let file = |name: &str| format!("sslrootcert={}", cluster.folder().join(name).display());
    let roots = file("server.crt");
    for (host, options) in [
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&{roots}")),
        ("localhost", format!("sslmode=verify-full&{roots}")),
    ] {
        let store = match Etcd::open(&url(host, &options)).await {
            Ok(store) => store,
            Err(error) => panic!("{options}: {}", told(&error)),
        };
        let id = write_id(0, options.len() as u64);
        drop(store.commit(Commit::new(id).put("/a", "1")).await.unwrap());
    }
    let expected = format!(
        "etcd://{address}/tls takes only TLS; write sslmode=verify-full or sslmode=require in the \
         URL"
    );
    assert_eq!(refused(&url("127.0.0.1", "sslmode=disable")).await, expected);
    let expected = format!(
        "the certificate of etcd://{address}/tls is not trusted; name its root with \
         sslrootcert=FILE, and the host as the certificate does"
    );
    assert_eq!(refused(&url("127.0.0.1", &format!("sslmode=verify-full&{roots}"))).await, expected);
    let roots = file("stranger.crt");
    assert_eq!(refused(&url("127.0.0.1", &format!("sslmode=verify-ca&{roots}"))).await, expected);
    let expected = format!(
        "the root certificates in {} cannot be used; name a PEM file with sslrootcert=FILE",
        cluster.folder().join("empty.crt").display()
    );
    let roots = file("empty.crt");
    assert_eq!(refused(&url("127.0.0.1", &format!("sslmode=verify-full&{roots}"))).await, expected);
}
