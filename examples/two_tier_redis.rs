//! Two services that share what they computed through one Redis, and go on when it is not there:
//! `cargo run --features redis --example two_tier_redis [-- --url redis://host:port]`.
//!
//! Run it with a Redis, then without one. The URL may also stand in `CACHEKIT_URL` or `REDIS_URL`.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "it talks to a person")]

use cachekit::{Cache, Fetched, registry};
use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: cargo run --features redis --example two_tier_redis [-- --url URL]";

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("two_tier_redis: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let Some(url) = url(std::env::args_os().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    // Two services: each has its own memory, and both have the Redis. Nothing is dialed yet.
    let (one, two) = (service(&url)?, service(&url)?);
    // What an earlier run left; without a Redis there is nothing to clear.
    if let Err(error) = one.clear().await {
        println!("{error}");
    }
    let l2 = one.health().l2.ok_or("a cache with a backend has an L2")?;
    let why = l2.last_error.map(|error| format!(" ({error}); going on without it")).unwrap_or_default();
    println!("{} is {}{why}", l2.backend, l2.status);

    println!("one fetches tea: {}", line(price(&one, "tea").await?));
    println!("one fetches tea again: {}", line(price(&one, "tea").await?));
    println!("two fetches tea: {}", line(price(&two, "tea").await?));

    // Every write says which tiers have it now.
    println!("one sets coffee: {:?}", one.set("coffee", 280_u32).await?);
    println!("two gets coffee: {:?}", two.get::<u32>("coffee").await?);
    // Whoever deletes has to know when the backend may still have the entry, so that is an error.
    match one.delete("coffee").await {
        Ok(there) => println!("one deletes coffee: {}", if there { "it was there" } else { "it was not there" }),
        Err(error) => println!("one deletes coffee: error: {error}"),
    }

    for (name, cache) in [("one", one), ("two", two)] {
        let health = cache.health();
        let breaker = health.circuit_breaker.map_or("off", |breaker| breaker.state);
        let (requests, degraded) = (health.requests, health.degraded);
        println!(
            "{name}: circuit {breaker}, {} hits in L1, {} in L2, {} misses, degraded {degraded:?}",
            requests.l1_hits, requests.l2_hits, requests.misses
        );
        cache.close(Duration::from_secs(5)).await?;
    }
    Ok(())
}

fn service(url: &str) -> Result<Cache, cachekit::Error> {
    Cache::builder("prices").default_ttl(Duration::from_secs(60)).backend(registry().factory(url)?).build()
}

/// The price in cents, out of the cache or worked out.
async fn price(cache: &Cache, item: &str) -> Result<Fetched<u32>, Box<dyn Error>> {
    let worked_out = async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok::<_, Infallible>(320)
    };
    Ok(cache.fetch(item, worked_out).await?)
}

fn line(fetched: Fetched<u32>) -> String {
    let why = fetched.degraded.map(|reason| format!(", because of {}", reason.as_str())).unwrap_or_default();
    format!("{} ({}{why})", fetched.value, fetched.source.as_str())
}

/// `None`: help was asked for.
fn url(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<String>, String> {
    let mut url = ["CACHEKIT_URL", "REDIS_URL"].iter().find_map(|name| std::env::var(name).ok());
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--url") => {
                let given = arguments.next().ok_or("--url takes a URL")?;
                url = Some(given.into_string().map_err(|_| "the URL is not text")?);
            }
            Some("--help" | "-h") => return Ok(None),
            _ => return Err(format!("unknown argument; {USAGE}")),
        }
    }
    Ok(Some(url.unwrap_or("redis://127.0.0.1:6379".to_owned())))
}
