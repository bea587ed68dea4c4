//! Values: opaque bytes of any size up to the limit.

use crate::check::Outcome;
use crate::subject::{Subject, ensure, refused};
use bytes::Bytes;
use cachekit_core::{ErrorKind, SetOptions};

/// What the kit is willing to send in one value; a larger limit is taken on trust.
const LARGEST_SENT: usize = 64 << 20;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

pub(crate) async fn values_of_all_bytes(subject: &Subject) -> Outcome {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let values: [(&str, &[u8]); 8] = [
        ("all 256 bytes", &every_byte),
        ("a value that is not UTF-8", b"\xff\xfe\xc3\x28"),
        ("a value of one NUL", b"\0"),
        ("a value that ends in NULs", b"tail\0\0\0"),
        ("a value with line ends", b"one\r\ntwo\nthree\r"),
        ("a value that ends in CR LF", b"END\r\n"),
        ("a value that looks like a protocol", b"VALUE k 0 3\r\nabc\r\nEND\r\n$-1\r\n*1\r\n"),
        ("a value of spaces", b"  \t  "),
    ];
    for (number, (which, value)) in values.into_iter().enumerate() {
        let key = subject.key(&format!("bytes{number}"));
        subject.set(&key, value.to_vec()).await?;
        subject.holds(&key, value, which).await?;
    }
    Ok(())
}

pub(crate) async fn empty_value_is_not_a_miss(subject: &Subject) -> Outcome {
    let key = subject.key("empty");
    subject.set(&key, Bytes::new()).await?;
    subject.holds(&key, b"", "an empty value").await?;
    subject.set(&key, "full").await?;
    subject.set(&key, Bytes::new()).await?;
    subject.holds(&key, b"", "an empty value over a longer one").await
}

pub(crate) async fn largest_value_fits(subject: &Subject) -> Outcome {
    let size = subject.capabilities().max_value_bytes().min(LARGEST_SENT);
    // Not one byte repeated, which a store may compress away.
    let value: Bytes = (0..size).map(|position| LETTERS[position * 31 / 7 % LETTERS.len()]).collect::<Vec<_>>().into();
    let key = subject.key("largest");
    subject.set(&key, value.clone()).await?;
    subject.holds(&key, &value, "a value of `max_value_bytes`").await
}

pub(crate) async fn too_large_is_refused(subject: &Subject) -> Outcome {
    let limit = subject.capabilities().max_value_bytes();
    // A limit of gigabytes is not tried: the machine may not have them twice.
    if limit >= 1 << 30 {
        return Ok(());
    }
    let key = subject.key("too-large");
    let what = format!("a `set` of {} bytes, one more than `max_value_bytes`,", limit + 1);
    let too_large = || Bytes::from(vec![0x5a; limit + 1]);
    let options = SetOptions::default();

    refused(subject.backend().set(&key, too_large(), options).await, ErrorKind::TooLarge, &what)?;
    subject.misses(&key, "a new key after a value that was too large").await?;

    subject.set(&key, "before").await?;
    refused(subject.backend().set(&key, too_large(), options).await, ErrorKind::TooLarge, &what)?;
    let found = subject.get(&key).await?;
    ensure(found.as_deref().is_none_or(|value| value == b"before"), || {
        "after a value that was too large a key may hold what it held before or nothing, and holds something else"
            .to_owned()
    })
}
