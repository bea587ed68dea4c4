//! No secret is ever printed, by whatever way.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit_core::testing::{MemoryBackend, MemoryFactory};
use cachekit_core::{Backend, Bytes, SetOptions};
use cachekit_secure::{
    Compression, FailMode, KeyError, Keyring, KeyringError, MasterKey, Padding, Secure, SecureBackend, SecureFactory,
};
use std::error::Error;
use std::fmt::{self, Debug, Write};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const CANARY: &str = "5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2";
const NAME_CANARY: &str = "4a3e0f5ec2e7c0ffee4a3e0f5ec2e7c0ffee4a3e0f5ec2e7c0ffee4a3e0f5ec2";
const VALUE_CANARY: &[u8] = b"the password is hunter2";

/// Everything that was printed, in the end searched for every form of every secret.
#[derive(Default)]
struct Printed(String);

impl Printed {
    fn debug(&mut self, value: &dyn Debug) {
        write!(self.0, "{value:?} {value:#?} ").unwrap();
    }

    fn error(&mut self, error: &dyn Error) {
        let mut next = Some(error);
        while let Some(error) = next {
            write!(self.0, "{error} {error:?} {error:#?} ").unwrap();
            next = error.source();
        }
    }

    fn holds_no_secret(&self) {
        let text = self.0.to_lowercase();
        for canary in [CANARY, NAME_CANARY] {
            let bytes = support::hex(canary);
            for window in bytes.windows(4) {
                let hex: String = window.iter().map(|byte| format!("{byte:02x}")).collect();
                let upper = format!("{window:?}");
                let inner = upper.trim_matches(['[', ']']);
                assert!(!text.contains(&hex) && !text.contains(inner), "{text}");
            }
        }
        assert!(!text.contains("hunter2") && !support::occurs(VALUE_CANARY, self.0.as_bytes()));
    }
}

fn canary() -> MasterKey {
    MasterKey::from_hex(CANARY).unwrap()
}

fn secure() -> Secure {
    let names = MasterKey::from_hex(NAME_CANARY).unwrap();
    Secure::new(Keyring::new(canary()).previous(support::master(1)))
        .hide_key_names(names)
        .compression(Compression::zstd(3))
        .padding(Padding::powers_of_two())
        .tenant(|key| key.into())
}

#[tokio::test]
async fn no_public_type_prints_a_secret() {
    let mut printed = Printed::default();
    printed.debug(&canary());
    printed.debug(&Keyring::new(canary()).previous(canary()));
    printed.debug(&secure());
    printed.debug(&secure().sealer());
    printed.debug(&secure().health("users"));
    printed.debug(&(FailMode::Closed, Padding::powers_of_two(), Compression::lz4()));
    let bad = Secure::new(Keyring::new(canary()).previous(canary()));
    printed.debug(&bad);
    printed.debug(&bad.sealer());
    printed.error(&bad.check().unwrap_err());
    printed.error(&*bad.sealer().check().unwrap_err());
    let store = MemoryBackend::new();
    let backend = SecureBackend::new(store.clone(), &secure().fail_closed()).unwrap();
    printed.debug(&backend);
    printed.debug(&SecureFactory::new(MemoryFactory::new(&store), &secure()).unwrap());
    printed.debug(&backend.subscribe("channel").await.unwrap());
    backend.set("k", Bytes::from_static(VALUE_CANARY), SetOptions::default()).await.unwrap();
    let name = store.keys().remove(0);
    let mut entry = store.raw(&name).unwrap().to_vec();
    entry[80] ^= 1;
    store.insert_raw(&name, entry);
    printed.error(&backend.get("k").await.unwrap_err());
    let huge = Bytes::from(VALUE_CANARY.repeat(1 << 20));
    printed.error(&backend.set("k", huge, SetOptions::default()).await.unwrap_err());
    // What is no secret is there.
    for shown in ["MasterKey(..)", "previous: 1", "EntrySealer", "fail_mode: Closed", "hidden_names: true"] {
        assert!(printed.0.contains(shown), "{shown}");
    }
    printed.holds_no_secret();
}

#[test]
fn no_error_quotes_a_key() {
    let mut printed = Printed::default();
    let bad = [
        format!("0x{CANARY}"),
        format!("\"{CANARY}\""),
        format!("{CANARY}0"),
        format!("{CANARY}00"),
        format!("{} {}", &CANARY[..32], &CANARY[32..]),
        format!("{}z", &CANARY[..63]),
        CANARY[..62].to_owned(),
    ];
    for text in bad {
        let error: KeyError = MasterKey::from_hex(&text).unwrap_err();
        printed.error(&error);
        printed.error(&KeyringError::Key { position: 1, source: error });
    }
    printed.holds_no_secret();
}

/// Keeps every event at every level.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<String>>);

impl Visit for Capture {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn no_log_at_any_level_holds_a_secret() {
    let capture = Capture::default();
    let guard = tracing::subscriber::set_default(capture.clone());
    let trimmed = MasterKey::from_hex(&format!("{CANARY}\n")).unwrap();
    assert!(MasterKey::from_hex(&format!("{CANARY}z")).is_err());
    let secure = Secure::new(Keyring::new(trimmed)).hide_key_names(MasterKey::from_hex(NAME_CANARY).unwrap());
    let store = MemoryBackend::new();
    let backend = SecureBackend::new(store.clone(), &secure).unwrap();
    backend.set("k", Bytes::from_static(VALUE_CANARY), SetOptions::default()).await.unwrap();
    backend.get("k").await.unwrap();
    store.insert_raw(&store.keys()[0], VALUE_CANARY);
    backend.get("k").await.unwrap();
    secure.reload(Keyring::new(support::master(3)).previous(canary())).unwrap();
    drop(guard);
    let logged = capture.to_string();
    assert!(logged.contains("whitespace around a master key"), "{logged}");
    Printed(logged).holds_no_secret();
}
