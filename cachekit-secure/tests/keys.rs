//! Every malformed form of a key has an error of its own, which tells nothing of the key.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use cachekit_secure::{KeyError, Keyring, KeyringError, MasterKey, Secure};
use std::process::Command;
use support::master;

const GOOD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[test]
fn a_key_in_hexadecimal_is_the_key_of_those_bytes() {
    for text in [GOOD.to_owned(), GOOD.to_uppercase(), format!("{GOOD}\n"), format!(" \t{GOOD}\r\n")] {
        let from_hex = MasterKey::from_hex(&text).unwrap();
        // The same key: a ring refuses to hold both.
        let both = Secure::new(Keyring::new(from_hex).previous(master(0)));
        assert_eq!(both.check(), Err(KeyringError::PrimaryAmongPrevious { position: 1 }));
    }
}

#[test]
fn every_malformed_form_has_its_own_error() {
    let cases = [
        (String::new(), KeyError::Empty { length: 0 }),
        (" \n".to_owned(), KeyError::Empty { length: 2 }),
        (format!("0x{GOOD}"), KeyError::HexPrefix { length: 66 }),
        (format!("0X{GOOD}"), KeyError::HexPrefix { length: 66 }),
        (format!("\"{GOOD}\""), KeyError::Quoted { length: 66, position: 0 }),
        (format!("{GOOD}'"), KeyError::Quoted { length: 65, position: 64 }),
        (format!("{} {}", &GOOD[..32], &GOOD[32..]), KeyError::InnerWhitespace { length: 65, position: 32 }),
        (format!("{}\n{}", &GOOD[..2], &GOOD[2..]), KeyError::InnerWhitespace { length: 65, position: 2 }),
        (GOOD[1..].to_owned(), KeyError::OddLength { length: 63, position: 63 }),
        (format!("{GOOD}0"), KeyError::OddLength { length: 65, position: 64 }),
        (GOOD[2..].to_owned(), KeyError::WrongLength { length: 62, position: 62 }),
        (format!("{GOOD}00"), KeyError::WrongLength { length: 66, position: 64 }),
        (GOOD.repeat(100), KeyError::WrongLength { length: 6_400, position: 64 }),
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".to_owned(), KeyError::Base64 { length: 44, position: 5 }),
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".to_owned(), KeyError::Base64 { length: 43, position: 5 }),
        (format!("{}g", &GOOD[..63]), KeyError::NotHex { length: 64, position: 63 }),
        (format!("{}é", &GOOD[..62]), KeyError::NotHex { length: 64, position: 62 }),
        (format!("{}\0", &GOOD[..63]), KeyError::NotHex { length: 64, position: 63 }),
        ("0".repeat(64), KeyError::Trivial { length: 64 }),
        ("aB".repeat(32), KeyError::Trivial { length: 64 }),
    ];
    for (text, expected) in cases {
        let error = MasterKey::from_hex(&text).unwrap_err();
        assert_eq!(error, expected, "{text:?}");
        let shown = format!("{error} {error:?}");
        let fragments = text.as_bytes().windows(6).filter(|part| part.iter().all(u8::is_ascii_hexdigit));
        assert!(fragments.into_iter().all(|part| !support::occurs(part, shown.as_bytes())), "{shown}");
    }
}

#[test]
fn u127_a_bad_ring_is_refused() {
    let check = |ring: Keyring| Secure::new(ring).check();
    let ring = |previous: &[u8]| previous.iter().fold(Keyring::new(master(0)), |ring, key| ring.previous(master(*key)));
    assert_eq!(check(ring(&[])), Ok(()));
    assert_eq!(check(ring(&[1, 2, 3])), Ok(()));
    assert_eq!(check(ring(&[1, 2, 3, 4])), Err(KeyringError::TooManyPrevious { count: 4 }));
    assert_eq!(check(ring(&[0])), Err(KeyringError::PrimaryAmongPrevious { position: 1 }));
    assert_eq!(check(ring(&[1, 2, 0])), Err(KeyringError::PrimaryAmongPrevious { position: 3 }));
    assert_eq!(check(ring(&[1, 2, 1])), Err(KeyringError::Duplicate { first: 1, second: 3 }));
    let bad = Secure::new(ring(&[0]));
    assert!(bad.sealer().check().unwrap_err().to_string().contains("previous key 1 is the primary key"));
    assert!(bad.reload(Keyring::new(master(9))).is_err());
    assert!(cachekit_secure::SecureBackend::new(cachekit_core::testing::MemoryBackend::new(), &bad).is_err());
}

const KEYS: &str = "CACHEKIT_MASTER_KEY";
const PREVIOUS: &str = "CACHEKIT_PREVIOUS_MASTER_KEYS";

/// What a process with this environment makes of it. In a process of its own, since changing the environment of one
/// with threads is not safe.
fn with_environment(variables: &[(&str, &[u8])]) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "reads_the_environment", "--nocapture"]).env_remove(KEYS).env_remove(PREVIOUS);
    for (name, value) in variables {
        command.env(name, std::ffi::OsStr::from_bytes(value));
    }
    let output = command.env("PROBE", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.split_once("ring: ")).map(|(_, ring)| ring.to_owned()).unwrap_or(text)
}

/// Not a test by itself: what the child process does.
#[test]
fn reads_the_environment() {
    if std::env::var_os("PROBE").is_some() {
        println!("ring: {:?}", Keyring::from_env());
    }
}

#[test]
fn the_environment_is_a_source_of_keys() {
    let other = GOOD.replace("00", "ff");
    let third = GOOD.replace("00", "ee");
    let good = GOOD.as_bytes();
    assert_eq!(with_environment(&[(KEYS, good)]), "Ok(Keyring { previous: 0, .. })");
    let two = format!("{other},{third}");
    assert_eq!(with_environment(&[(KEYS, good), (PREVIOUS, two.as_bytes())]), "Ok(Keyring { previous: 2, .. })");
    let spaced = format!("{other}, {third}\n");
    assert_eq!(with_environment(&[(KEYS, good), (PREVIOUS, spaced.as_bytes())]), "Ok(Keyring { previous: 2, .. })");
    let broken = [good, b"\xFF"].concat();
    let trailing = format!("{other},");
    for (variables, error) in [
        (&[][..], "Err(Key { position: 0, source: NotSet })"),
        (&[(KEYS, &b""[..])], "Err(Key { position: 0, source: SetButEmpty })"),
        (&[(KEYS, b" ")], "Err(Key { position: 0, source: Empty { length: 1 } })"),
        (&[(KEYS, &broken)], "Err(Key { position: 0, source: NotUtf8 { length: 65, position: 64 } })"),
        (&[(KEYS, good), (PREVIOUS, b"")], "Err(Key { position: 1, source: SetButEmpty })"),
        (&[(KEYS, good), (PREVIOUS, trailing.as_bytes())], "Err(Key { position: 2, source: Empty { length: 0 } })"),
        (&[(KEYS, good), (PREVIOUS, good)], "Err(PrimaryAmongPrevious { position: 1 })"),
        (&[(PREVIOUS, good)], "Err(Key { position: 0, source: NotSet })"),
    ] {
        assert_eq!(with_environment(variables), error);
    }
}
