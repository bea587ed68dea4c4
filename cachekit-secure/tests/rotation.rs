//! New keys without downtime, and no way back.

mod support;

use cachekit_core::testing::ManualClock;
use cachekit_core::{Acceptance, OpenError, SealContext};
use cachekit_secure::{Keyring, KeyringError, Secure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use support::{CONTEXT, acceptance, header, master, open, seal, seal_in};

fn ring(primary: u8, previous: &[u8]) -> Keyring {
    previous.iter().fold(Keyring::new(master(primary)), |ring, key| ring.previous(master(*key)))
}

#[test]
fn u124_what_an_old_key_sealed_is_still_opened_and_counted() {
    let old = Secure::new(ring(1, &[]));
    let entry = seal(&*old.sealer(), b"value");
    let both = Secure::new(ring(2, &[1]));
    assert_eq!(open(&*both.sealer(), entry.clone()).unwrap(), "value");
    let opened: Vec<_> = both.health("users").slots.into_iter().map(|slot| slot.opened).collect();
    assert_eq!(opened, [0, 1]);
    let new = seal(&*both.sealer(), b"value");
    assert_eq!(open(&*old.sealer(), new.clone()), Err(OpenError::NotAuthentic));
    let only_new = Secure::new(ring(2, &[]));
    assert_eq!(open(&*only_new.sealer(), entry), Err(OpenError::NotAuthentic));
    assert_eq!(open(&*only_new.sealer(), new).unwrap(), "value");
}

#[test]
fn every_slot_opens_what_it_sealed() {
    let secure = Secure::new(ring(4, &[3, 2, 1]));
    for (slot, key) in [4, 3, 2, 1].into_iter().enumerate() {
        let entry = seal(&*Secure::new(ring(key, &[])).sealer(), b"value");
        assert_eq!(open(&*secure.sealer(), entry).unwrap(), "value");
        assert_eq!(secure.health("users").slots[slot].opened, 1);
    }
}

#[test]
fn a_reload_reaches_every_clone_and_sealer() {
    let secure = Secure::new(ring(1, &[]));
    let (sealer, clone) = (secure.sealer(), secure.clone());
    let old = seal(&*sealer, b"old");
    secure.reload(ring(2, &[1])).unwrap();
    let new = seal(&*sealer, b"new");
    assert_eq!(new[36..52], seal(&*clone.sealer(), b"new")[36..52]);
    assert_ne!(new[36..52], old[36..52]);
    assert_eq!(open(&*sealer, old.clone()).unwrap(), "old");
    clone.reload(ring(2, &[])).unwrap();
    assert_eq!(open(&*sealer, old), Err(OpenError::NotAuthentic));
    assert_eq!(open(&*sealer, new).unwrap(), "new");
}

#[test]
fn rotation_goes_forward_only() {
    let secure = Secure::new(ring(2, &[1]));
    let refused = |ring| assert_eq!(secure.reload(ring), Err(KeyringError::NotForward));
    refused(ring(1, &[2]));
    refused(ring(1, &[]));
    secure.reload(ring(3, &[2])).unwrap();
    refused(ring(2, &[]));
    refused(ring(1, &[]));
    // The same primary, with fewer or other previous keys, is no step back.
    secure.reload(ring(3, &[])).unwrap();
    secure.reload(ring(3, &[9])).unwrap();
    refused(ring(9, &[3]));
    secure.reload(ring(4, &[3])).unwrap();
    refused(ring(3, &[]));
    assert_eq!(secure.reload(ring(5, &[5])), Err(KeyringError::PrimaryAmongPrevious { position: 1 }));
    assert_eq!(secure.health("users").slots.len(), 2, "a refused ring changes nothing");
    // Another ring of the same process has a history of its own.
    assert_eq!(Secure::new(ring(1, &[])).check(), Ok(()));
}

#[test]
fn health_shows_short_ids_of_the_empty_tenant() {
    let secure = Secure::new(ring(0, &[1]));
    let health = secure.health("users");
    let entry = seal_in(&*secure.sealer(), SealContext { tenant: "", ..CONTEXT }, header(), b"");
    let id: String = entry[36..40].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(health.slots[0].key_id, id);
    assert_eq!(health.slots.iter().map(|slot| slot.key_id.len()).collect::<Vec<_>>(), [8, 8]);
    assert_ne!(secure.health("orders").slots[0].key_id, id);
}

#[test]
fn health_tells_when_the_previous_keys_can_go() {
    let clock = ManualClock::new();
    let secure = Secure::new(ring(1, &[])).clock(Arc::new(clock.clone())).longest_ttl(Duration::from_secs(60));
    let sealer = secure.sealer();
    let can_go = || secure.health("users").previous_keys_can_be_dropped;
    let old = seal(&*sealer, b"old");
    clock.advance(Duration::from_secs(3_600));
    assert!(!can_go(), "there are none");
    secure.reload(ring(2, &[1])).unwrap();
    assert!(!can_go(), "entries of the old key live for another 300 s");
    clock.advance(Duration::from_secs(200));
    assert_eq!(open(&*sealer, old).unwrap(), "old");
    clock.advance(Duration::from_secs(300));
    assert!(!can_go(), "300 s ago the old key was needed");
    clock.advance(Duration::from_millis(1));
    assert!(can_go());
    let mut endless = header();
    endless.expires_at = u64::MAX;
    let endless = seal_in(&*sealer, CONTEXT, endless, b"");
    assert!(!can_go(), "an entry without an end can turn up at any time");
    let accepted = Acceptance { now: u64::MAX - 1, ..acceptance() };
    assert!(sealer.open(CONTEXT, endless, accepted).is_ok());

    let idle = Secure::new(ring(2, &[1])).clock(Arc::new(clock.clone()));
    let can_go = || idle.health("users").previous_keys_can_be_dropped;
    // A process that has just started knows nothing of what others have written, whatever it writes itself.
    let _short = seal(&*idle.sealer(), b"value");
    clock.advance(Duration::from_secs(24 * 60 * 60));
    assert!(!can_go(), "a day is what it takes for granted");
    clock.advance(Duration::from_millis(1));
    assert!(can_go());
}

#[test]
fn sealing_goes_on_while_keys_are_replaced() {
    const LAST: u8 = 40;
    let secure = Secure::new(ring(1, &[]));
    let (rounds, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let sealer = secure.sealer();
        let (rounds, stop) = (&rounds, &stop);
        let worker = scope.spawn(move || {
            while !stop.load(SeqCst) {
                let entry = seal(&*sealer, b"value");
                assert_eq!(open(&*sealer, entry).unwrap(), "value");
                rounds.fetch_add(1, SeqCst);
            }
        });
        for key in 2..=LAST {
            secure.reload(ring(key, &[key - 1])).unwrap();
            // What is sealed now may be opened under the next ring, but not under the one after that.
            let seen = rounds.load(SeqCst);
            while rounds.load(SeqCst) < seen + 2 && !worker.is_finished() {
                std::thread::yield_now();
            }
        }
        stop.store(true, SeqCst);
    });
    assert!(rounds.load(SeqCst) >= usize::from(2 * (LAST - 1)));
}
