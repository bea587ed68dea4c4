//! Encryption at work: `cargo run --example encrypted [-- --url URL]`.
//!
//! Writes a secret, shows what the backend really holds, rotates the key, and flips one bit to show both modes.
#![allow(clippy::print_stderr, reason = "it talks to a person")]

use cachekit::secure::{Keyring, MasterKey, Secure, SecureExt};
use cachekit::{Backend, BackendFactory, Bytes, Cache, SetOptions, registry};
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&mut io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("encrypted: {error}");
            ExitCode::from(2)
        }
    }
}

const SECRET: &str = "4929 1234 5678 9012";
const STORED_KEY: &str = "cards:alice";

async fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let factory = registry().factory(&url()?)?;
    // In earnest: `MasterKey::from_env("CACHEKIT_MASTER_KEY")`, 64 hexadecimal digits.
    let old = || MasterKey::from_hex(&"0123456789abcdef".repeat(4));
    let new = || MasterKey::from_hex(&"fedcba9876543210".repeat(4));

    let cache = open(&factory, Secure::new(Keyring::new(old()?)))?;
    let stored = cache.set("alice", SECRET.to_owned()).await?;
    writeln!(out, "wrote a card number of {} bytes under `{STORED_KEY}`: {stored:?}", SECRET.len())?;

    let backend = factory.build().await?;
    let bytes = backend.get(STORED_KEY).await?.ok_or("the backend has lost the entry")?;
    let leaks = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    writeln!(out, "the backend holds {} bytes; the card number is among them: {leaks}", bytes.len())?;
    writeln!(out, "  {}", hex(&bytes))?;

    writeln!(out, "\nrotation: the new key seals, the old one only opens")?;
    let rotating = open(&factory, Secure::new(Keyring::new(new()?).previous(old()?)))?;
    writeln!(out, "  read with both keys:         {:?}", rotating.get::<String>("alice").await?)?;
    for key in rotating.health().sealer.into_iter().flat_map(|sealer| sealer.keys) {
        writeln!(out, "  key {}.. has opened {}", key.id, key.opened)?;
    }
    let _ = rotating.set("alice", SECRET.to_owned()).await?;
    let rotated = open(&factory, Secure::new(Keyring::new(new()?)))?;
    writeln!(out, "  read with the new key alone: {:?}", rotated.get::<String>("alice").await?)?;
    let before = open(&factory, Secure::new(Keyring::new(old()?)))?;
    writeln!(out, "  read with the old key alone: {:?}", before.get::<String>("alice").await?)?;

    writeln!(out, "\ntampering: one bit of what the backend holds is flipped")?;
    flip_a_bit(&*backend).await?;
    let open_mode = open(&factory, Secure::new(Keyring::new(new()?)).fail_open())?;
    let value = open_mode.get_or_compute("alice", || async { Ok::<_, io::Error>("computed anew".to_owned()) }).await?;
    writeln!(out, "  fail-open:   a miss, so the function runs: {value:?}")?;
    flip_a_bit(&*backend).await?;
    let closed_mode = open(&factory, Secure::new(Keyring::new(new()?)).fail_closed())?;
    let refused =
        closed_mode.get_or_compute("alice", || async { Ok::<_, io::Error>("never computed".to_owned()) }).await;
    writeln!(out, "  fail-closed: {}", refused.unwrap_or_else(|error| format!("error: {error}")))?;

    backend.delete(STORED_KEY).await?;
    for cache in [cache, rotating, rotated, before, open_mode, closed_mode] {
        cache.close(Duration::from_secs(5)).await?;
    }
    Ok(backend.close().await?)
}

fn open(factory: &Arc<dyn BackendFactory>, secure: Secure) -> Result<Cache, cachekit::Error> {
    Cache::builder("cards").backend(Arc::clone(factory)).secure(secure).build()
}

async fn flip_a_bit(backend: &dyn Backend) -> Result<(), Box<dyn Error>> {
    let mut bytes = backend.get(STORED_KEY).await?.ok_or("the backend has lost the entry")?.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    Ok(backend.set(STORED_KEY, Bytes::from(bytes), SetOptions::default()).await?)
}

fn url() -> Result<String, String> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        None => Ok(format!("sled://{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("target/encrypted").display())),
        Some("--url") => arguments.next().ok_or_else(|| "--url takes a URL".to_owned()),
        Some(other) => Err(format!("unknown option {other}; there is --url URL")),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
