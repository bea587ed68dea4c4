//! Encrypted connections, and certificates that do not fit.

use super::*;
use cachekit_core::ErrorKind;
use cachekit_servers::{Certificates, Leaf, RedisServer};

fn with_ca(server: &RedisServer, certificates: &Certificates) -> String {
    format!("{}?ca={}", server.url(), certificates.ca().display())
}

#[tokio::test]
async fn a_trusted_server_that_comes_back() {
    let certificates = Certificates::new(Leaf::Good);
    let server = RedisServer::builder().tls(&certificates).password("canary").start();
    let backend = build(&with_ca(&server, &certificates)).await;
    recovers(&*backend, GRACE).await;
    server.restart();
    recovers(&*backend, RECOVERY).await;
}

#[tokio::test]
async fn both_versions_of_the_protocol() {
    let certificates = Certificates::new(Leaf::Good);
    for version in ["TLSv1.2", "TLSv1.3"] {
        let server = RedisServer::builder().tls(&certificates).args(["--tls-protocols", version]).start();
        recovers(&*build(&with_ca(&server, &certificates)).await, GRACE).await;
    }
}

#[tokio::test]
async fn certificates_that_do_not_fit_are_a_setting_that_is_wrong() {
    let (good, others) = (Certificates::new(Leaf::Good), Certificates::new(Leaf::Good));
    for (case, certificates, trusted) in [
        ("signed by somebody else", good, Some(others)),
        ("of another name", Certificates::new(Leaf::WrongName), None),
        ("expired", Certificates::new(Leaf::Expired), None),
    ] {
        let server = RedisServer::builder().tls(&certificates).start();
        let (outcome, took) = timed(try_build(&with_ca(&server, trusted.as_ref().unwrap_or(&certificates)))).await;
        let error = outcome.unwrap_err();
        println!("{case}: {error}, after {took:?}");
        assert!(error.kind() == ErrorKind::ConfigInvalid && !error.is_temporary(), "{case}: {error}");
        assert!(took < GRACE, "{case}: {took:?}");
        let (outcome, took) = timed(try_build(&server.url())).await;
        assert!(outcome.is_err(), "{case}: the system trusts nobody of ours");
        assert!(took < Duration::from_secs(1) + GRACE, "{case}: {took:?}");
    }
}

#[tokio::test]
async fn one_side_speaks_tls_and_the_other_does_not() {
    let certificates = Certificates::new(Leaf::Good);
    let (plain, encrypted) = (RedisServer::start(), RedisServer::builder().tls(&certificates).start());
    let ca = certificates.ca();
    for url in [format!("rediss://{}?ca={}", plain.address(), ca.display()), format!("redis://{}", encrypted.address())]
    {
        let (outcome, took) = timed(try_build(&url)).await;
        let error = outcome.unwrap_err();
        println!("{error}, after {took:?}");
        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Protocol), "{error}");
        assert!(took < Duration::from_secs(1) + GRACE, "{took:?}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate() {
    let certificates = Certificates::new(Leaf::Good);
    let server = RedisServer::builder().tls(&certificates).arg("--tls-auth-clients").arg("optional").start();
    let url = with_ca(&server, &certificates);
    let shown =
        format!("client_cert={}&client_key={}", certificates.certificate().display(), certificates.key().display());
    assert_eq!(server.cli(&["CONFIG", "SET", "tls-auth-clients", "yes"]), "OK");
    assert!(try_build(&url).await.is_err());
    recovers(&*build(&format!("{url}&{shown}")).await, GRACE).await;
}

#[tokio::test]
async fn a_file_that_is_missing_is_named() {
    let error = try_build("rediss://127.0.0.1:1?ca=/no/such/ca.pem").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigInvalid, "{error}");
    assert!(error.context().contains("/no/such/ca.pem"), "{error}");
}
