//! Keys: any text, and never another key's.

use crate::Failure;
use crate::check::Outcome;
use crate::subject::{Subject, in_time, random, refused, shown};
use bytes::Bytes;
use cachekit_core::{ErrorKind, SetOptions};
use std::time::Duration;

pub(crate) async fn keys_of_all_lengths(subject: &Subject) -> Outcome {
    for length in [1, 2, 3, 4, 7, 16] {
        short_key_works(subject, length).await?;
    }
    let lengths = [32, 64, 127, 128, 200, 249, 250, 251, 252, 255, 256, 257, 511, 512, 513, 767, 1_000, 1_023, 1_024];
    for length in lengths {
        // Its number first: whether long keys are told apart is another check's business.
        let mut key = format!("{}:{length}:", subject.namespace());
        key.extend(std::iter::repeat_n('k', length - key.len()));
        let key = subject.own(key);
        let value = format!("of {length} bytes");
        subject.set(&key, value.clone()).await?;
        subject.holds(&key, value.as_bytes(), &format!("a key {value}")).await?;
    }
    Ok(())
}

/// Too short to hold a namespace: on a shared store somebody else may use the very same key, so one that is taken is
/// left alone, and one whose value changes meanwhile gets another try.
async fn short_key_works(subject: &Subject, length: usize) -> Outcome {
    let mut outcome = Err(Failure::suite(format!("no free key of {length} bytes was found")));
    for _ in 0..8 {
        let key: String = (0..length).map(|_| char::from(b'!' + (random() % 94) as u8)).collect();
        if let Ok(Some(_)) = in_time("get", subject.backend().get(&key)).await? {
            continue;
        }
        let key = subject.own(key);
        let value = format!("{}", random());
        subject.set(&key, value.clone()).await?;
        outcome = subject.holds(&key, value.as_bytes(), &format!("a key of {length} bytes ({key:?})")).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

pub(crate) async fn keys_of_any_text(subject: &Subject) -> Outcome {
    let texts = [
        "two words",
        " both ends ",
        "dash-dot.under_score",
        "a/b/../c",
        "a:b::c:",
        "back\\slash",
        "'single'",
        "\"double\"",
        "100%",
        "%41%00",
        "a+b&c=d?e#f",
        "{tag}",
        "[set]",
        "*?",
        "^~|<>",
        "$(echo)",
        "`tick`",
        "@,;!",
        "grüße",
        "Ελληνικά",
        "日本語",
        "עברית",
        "🦀",
        "👩‍👩‍👧‍👦",
        "e\u{301}",
        "\u{feff}mark",
        "zero\u{200b}width",
        "\u{202e}turned",
        "\u{fffd}",
        "\u{10ffff}",
    ];
    let mut keys = Vec::new();
    for (number, text) in texts.into_iter().enumerate() {
        // Numbered: whether similar keys are told apart is another check's business.
        keys.push(subject.key(&format!("{number}:{text}")));
    }
    keys.push(subject.own(format!(" {} in front", subject.namespace())));
    keys.push(subject.own(format!("🦀{}", subject.namespace())));
    for (number, key) in keys.iter().enumerate() {
        subject.set(key, format!("value {number}")).await?;
    }
    for (number, key) in keys.iter().enumerate() {
        subject.holds(key, format!("value {number}").as_bytes(), &format!("the key {}", shown(key))).await?;
    }
    for key in &keys {
        subject.delete(key).await?;
    }
    Ok(())
}

pub(crate) async fn similar_keys_do_not_meet(subject: &Subject) -> Outcome {
    let long = |length: usize, end: char| {
        let mut key = format!("{}:long:", subject.namespace());
        key.extend(std::iter::repeat_n('k', length - key.len() - end.len_utf8()));
        key.push(end);
        subject.own(key)
    };
    let mut keys: Vec<String> = [
        "key",
        "Key",
        "KEY",
        "key ",
        " key",
        "key  ",
        "ke y",
        "k",
        "ke",
        "key:",
        "key::",
        ":key",
        "a/b",
        "a//b",
        "a/./b",
        "a%20b",
        "a+b",
        "a b",
        "1",
        "01",
        "1.0",
        "ß",
        "ss",
        "é",
        "e\u{301}",
        "e",
        "i",
        "I",
        "ı",
        "İ",
        "Å",
        "\u{212b}",
        "A",
        "Ａ",
        "zero",
        "ze\u{200b}ro",
        "x*",
        "xy",
        "x?",
        "\"key\"",
        "'key'",
        "key\\",
        "null",
        "",
    ]
    .map(|name| subject.key(name))
    .into();
    keys.push(subject.own(subject.namespace().to_owned()));
    keys.push(subject.own(format!(" {}", subject.namespace())));
    for length in [128, 250, 251, 255, 256, 257, 512, 1_000, 1_023, 1_024] {
        keys.extend([long(length, '1'), long(length, '2')]);
    }
    for (number, key) in keys.iter().enumerate() {
        subject.set(key, format!("value {number}")).await?;
    }
    for (number, key) in keys.iter().enumerate() {
        let which = format!("{}, while similar keys hold values of their own", shown(key));
        subject.holds(key, format!("value {number}").as_bytes(), &which).await?;
    }
    for key in keys.iter().step_by(2) {
        subject.delete(key).await?;
    }
    for (number, key) in keys.iter().enumerate().skip(1).step_by(2) {
        let which = format!("{}, after similar keys were deleted", shown(key));
        subject.holds(key, format!("value {number}").as_bytes(), &which).await?;
    }
    Ok(())
}

pub(crate) async fn empty_key_is_refused(subject: &Subject) -> Outcome {
    let backend = subject.backend();
    let value = Bytes::from_static(b"nowhere");
    refused(backend.get("").await, ErrorKind::KeyInvalid, "`get` of the empty key")?;
    let set = backend.set("", value, SetOptions::default()).await;
    if set.is_ok() {
        // Not left behind in a shared store.
        let _ = backend.delete("").await;
    }
    refused(set, ErrorKind::KeyInvalid, "`set` of the empty key")?;
    refused(backend.delete("").await, ErrorKind::KeyInvalid, "`delete` of the empty key")?;
    refused(backend.exists("").await, ErrorKind::KeyInvalid, "`exists` of the empty key")?;

    let capabilities = subject.capabilities();
    if capabilities.ttl() {
        refused(backend.ttl("").await, ErrorKind::KeyInvalid, "`ttl` of the empty key")?;
    }
    if capabilities.touch() {
        let touched = backend.touch("", Some(Duration::from_secs(10))).await;
        refused(touched, ErrorKind::KeyInvalid, "`touch` of the empty key")?;
    }
    if capabilities.lock().is_some() {
        let taken = backend.try_lock("", capabilities.min_lock_ttl().max(Duration::from_millis(1))).await;
        refused(taken, ErrorKind::KeyInvalid, "`try_lock` of the empty key")?;
    }
    Ok(())
}

pub(crate) async fn control_characters_do_no_harm(subject: &Subject) -> Outcome {
    let names = ["left", "right", "leftright", "left right"];
    let mut neighbours = Vec::new();
    for name in names {
        let key = subject.key(name);
        subject.set(&key, name).await?;
        neighbours.push(key);
    }
    let victim = &neighbours[0];
    let length = victim.len();
    let mut odd: Vec<String> = Vec::new();
    for control in ["\r", "\n", "\r\n", "\0"] {
        odd.push(subject.key(&format!("left{control}right")));
        odd.push(subject.key(&format!("left{control}")));
        odd.push(subject.own(format!("{control}{victim}")));
    }
    odd.push(subject.key(&format!("x\r\ndelete {victim}\r\n")));
    odd.push(subject.key(&format!("x\r\nmd {victim}\r\n")));
    odd.push(subject.key(&format!("x 0 0 4\r\nevil\r\nset {victim} 0 0 4\r\nevil\r\n")));
    odd.push(subject.key(&format!("x\r\n*2\r\n$3\r\nDEL\r\n${length}\r\n{victim}\r\n")));

    for (number, key) in odd.iter().enumerate() {
        let value = format!("odd {number}");
        match subject.backend().set(key, value.clone().into(), SetOptions::default()).await {
            Ok(()) => {
                subject.holds(key, value.as_bytes(), &format!("the key {}", shown(key))).await?;
                subject.delete(key).await?;
            }
            Err(error) if error.kind() == ErrorKind::KeyInvalid => {
                refused(subject.backend().get(key).await, ErrorKind::KeyInvalid, &format!("`get` of {}", shown(key)))?;
            }
            Err(error) => {
                let text = format!("{} has to work or be `KeyInvalid`, and `set` failed with {error}", shown(key));
                return Err(Failure::backend(text));
            }
        }
        for (neighbour, name) in neighbours.iter().zip(names) {
            let which = format!("{} after {} was used", shown(neighbour), shown(key));
            subject.holds(neighbour, name.as_bytes(), &which).await?;
        }
    }
    Ok(())
}
