//! The breaker around a future: what the closure does, and what becomes of it.

use crate::rig::{COOLDOWN, NANOSECOND, Rig, SECOND, defaults, single};
use cachekit_core::breaker::{Abandoned, BreakerConfig, CallError, CircuitBreaker, State};
use std::cell::Cell;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future that needs no waking.
fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

/// Pending `times` times, then this.
async fn after<T>(times: u32, output: T) -> T {
    let mut left = times;
    poll_fn(move |_| {
        left = left.wrapping_sub(1);
        if left == u32::MAX { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    output
}

#[test]
fn a_success_comes_through() {
    let rig = Rig::new(defaults());
    assert_eq!(run(rig.breaker.call(|| after(3, Ok::<_, ()>(42)))), Ok(42));
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
}

#[test]
fn an_error_counts_and_comes_through_unchanged() {
    let rig = Rig::new(defaults());
    for _ in 0..5 {
        let error = run(rig.breaker.call(|| ready(Err::<(), _>("down")))).unwrap_err();
        assert_eq!(error.to_string(), "down");
        assert_eq!(error.into_inner(), Some("down"));
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn s31_s32_x02_x13_an_open_circuit_does_not_run_the_closure() {
    let rig = Rig::open(defaults());
    rig.advance(COOLDOWN - 12 * SECOND - SECOND / 3);
    let ran = Cell::new(0);
    for _ in 0..10 {
        let error = run(rig.breaker.call(|| {
            ran.set(ran.get() + 1);
            ready(Ok::<(), std::io::Error>(()))
        }))
        .unwrap_err();
        assert_eq!(error.to_string(), "circuit open; retry in 12.3s");
        assert!(matches!(error, CallError::Open { retry_in } if retry_in == 12 * SECOND + SECOND / 3));
    }
    assert_eq!(ran.get(), 0);
}

#[test]
fn s77_the_closure_runs_once_per_admitted_call() {
    let ran = Cell::new(0);
    let rig = Rig::new(single());
    let call = |result: Result<(), ()>| {
        let _ = run(rig.breaker.call(|| {
            ran.set(ran.get() + 1);
            after(2, result)
        }));
        ran.take()
    };
    assert_eq!(call(Ok(())), 1);
    assert_eq!(call(Err(())), 1);
    assert_eq!(call(Ok(())), 0);
    rig.advance(COOLDOWN + NANOSECOND);
    assert_eq!(call(Ok(())), 1);
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn x08_excluded_errors_do_not_count() {
    let rig = Rig::new(defaults());
    for _ in 0..100 {
        let error = run(rig.breaker.call_excluding(|e: &u16| *e < 500, || ready(Err::<(), _>(404)))).unwrap_err();
        assert_eq!(error, CallError::Inner(404));
    }
    assert_eq!((rig.state(), rig.failures()), (State::Closed, 0));
    run(rig.breaker.call_excluding(|e: &u16| *e < 500, || ready(Err::<(), _>(503)))).unwrap_err();
    assert_eq!(rig.failures(), 1);
}

#[test]
fn an_excluded_error_of_a_probe_gives_its_slot_back() {
    let rig = Rig::cooled(single());
    run(rig.breaker.call_excluding(|()| true, || ready(Err::<(), _>(())))).unwrap_err();
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use), (State::HalfOpen, 0));
    assert_eq!(snapshot.probes_total.raised, 1);
}

#[test]
fn a_future_dropped_after_any_number_of_polls_is_abandoned() {
    for polls in 0..4 {
        let rig = Rig::cooled(single());
        {
            let mut call = pin!(rig.breaker.call(|| after(3, Ok::<(), ()>(()))));
            for _ in 0..polls {
                assert!(poll(call.as_mut()).is_pending());
            }
        }
        let snapshot = rig.snapshot();
        let admitted = u64::from(polls > 0);
        assert_eq!(snapshot.probes_total.abandoned, admitted, "after {polls} polls");
        assert_eq!(u64::from(snapshot.probes_in_use), admitted);
        assert_eq!(snapshot.state, if polls > 0 { State::HalfOpen } else { State::Open });
    }
    let rig = Rig::cooled(single());
    assert_eq!(run(rig.breaker.call(|| after(3, Ok::<(), ()>(())))), Ok(()));
    assert_eq!(rig.state(), State::Closed);
}

#[test]
fn a_dropped_future_can_count() {
    let rig = Rig::new(single().with_abandoned(Abandoned::Failure));
    {
        let mut call = pin!(rig.breaker.call(pending::<Result<(), ()>>));
        assert!(poll(call.as_mut()).is_pending());
    }
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn a_panic_of_the_closure_or_of_its_future_is_a_failure_and_goes_on() {
    type Panics = fn(&CircuitBreaker);
    let in_the_closure: Panics = |breaker| {
        let _ = run(breaker.call(|| -> std::future::Ready<Result<(), ()>> { panic!("the dependency") }));
    };
    let in_its_future: Panics = |breaker| {
        let _ = run(breaker.call(|| async {
            after(2, ()).await;
            if true {
                panic!("the dependency");
            }
            Ok::<(), ()>(())
        }));
    };
    for panics in [in_the_closure, in_its_future] {
        for rig in [Rig::new(single()), Rig::cooled(single())] {
            let panic = catch_unwind(AssertUnwindSafe(|| panics(&rig.breaker))).unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"the dependency"));
            assert_eq!((rig.state(), rig.rejected().retry_in), (State::Open, COOLDOWN));
        }
    }
}

#[test]
fn a_panic_around_the_call_is_not_the_dependencys() {
    let rig = Rig::cooled(single());
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut call = pin!(rig.breaker.call(pending::<Result<(), ()>>));
        assert!(poll(call.as_mut()).is_pending());
        panic!("the caller");
    }));
    let snapshot = rig.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use), (State::HalfOpen, 0));
    assert_eq!(snapshot.probes_total.raised, 1);

    let rig = Rig::cooled(single());
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let excluded = |(): &()| -> bool { panic!("the predicate") };
        run(rig.breaker.call_excluding(excluded, || ready(Err::<(), _>(()))))
    }));
    assert_eq!((rig.state(), rig.snapshot().probes_in_use), (State::HalfOpen, 0));
}

#[test]
fn x15_a_slow_call_is_a_failure_whatever_it_says() {
    let limit = 2 * SECOND;
    for (took, counted) in [(limit - NANOSECOND, 0), (limit, 0), (limit + NANOSECOND, 1)] {
        let rig = Rig::new(defaults().with_slow_call(limit));
        let answer = run(rig.breaker.call(|| {
            rig.advance(took);
            ready(Ok::<_, ()>("late, but here"))
        }));
        assert_eq!((answer, rig.failures()), (Ok("late, but here"), counted), "{took:?}");
    }
    // An error counts once, slow or not; an excluded one not at all.
    let rig = Rig::new(defaults().with_slow_call(limit));
    let slow_error = || {
        rig.advance(2 * limit);
        ready(Err::<(), _>(()))
    };
    run(rig.breaker.call(slow_error)).unwrap_err();
    assert_eq!(rig.failures(), 1);
    run(rig.breaker.call_excluding(|()| true, slow_error)).unwrap_err();
    assert_eq!(rig.failures(), 1);
    // A slow probe reopens.
    let rig = Rig::cooled(single().with_slow_call(limit));
    run(rig.breaker.call(|| {
        rig.advance(2 * limit);
        ready(Ok::<_, ()>(()))
    }))
    .unwrap();
    assert_eq!(rig.state(), State::Open);
}

#[test]
fn q15_a_huge_slow_call_is_never_reached() {
    let rig = Rig::new(defaults().with_slow_call(std::time::Duration::MAX));
    assert_eq!(run(rig.breaker.call(|| ready(Ok::<_, ()>(1)))), Ok(1));
    assert_eq!(rig.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_waiting_and_a_task_that_is_aborted_leave_a_probe_held() {
    let breaker = std::sync::Arc::new(CircuitBreaker::new(defaults()).unwrap());
    for _ in 0..5 {
        breaker.call(|| ready(Err::<(), _>(()))).await.unwrap_err();
    }
    tokio::time::advance(COOLDOWN + NANOSECOND).await;

    let left = tokio::time::timeout(SECOND, breaker.call(pending::<Result<(), ()>>)).await;
    assert!(left.is_err());
    let aborted = tokio::spawn({
        let breaker = breaker.clone();
        async move { breaker.call(pending::<Result<(), ()>>).await }
    });
    tokio::task::yield_now().await;
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());

    let snapshot = breaker.snapshot();
    assert_eq!((snapshot.state, snapshot.probes_in_use, snapshot.probes_total.abandoned), (State::HalfOpen, 2, 2));
    // A timeout inside the call is the dependency's.
    let timed_out = breaker.call(|| tokio::time::timeout(SECOND, pending::<()>())).await;
    assert!(matches!(timed_out, Err(CallError::Inner(_))));
    assert_eq!(breaker.state(), State::Open);
}

#[test]
fn the_future_of_a_call_is_send_and_needs_no_runtime() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let breaker = CircuitBreaker::new(BreakerConfig::new()).unwrap();
    assert_eq!(run(is_send(breaker.call(|| async { Ok::<_, ()>(1) }))), Ok(1));
}
