//! Every wrong backend, and the checks it fails: those and no others.

use crate::dropped::Call;
use crate::tracking::SHARED;
use crate::twist::{over, with};
use crate::{batches, calls, clears, dropped, entries, keys, locks, messages, times, touches, tracking, values};
use cachekit_core::Backend;
use cachekit_core::testing::MemoryBackend;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) make: fn() -> Arc<dyn Backend>,
    pub(crate) fails: &'static [&'static str],
}

macro_rules! wrong {
    ($($name:literal $backend:expr => $($check:ident)*;)*) => {
        pub(crate) const WRONG: &[Case] = &[
            $(Case { name: $name, make: || $backend, fails: &[$(stringify!($check)),*] }),*
        ];
    };
}

wrong! {
    "values as text" with(values::Reads(values::as_text)) => values_of_all_bytes;
    "values without their line end" with(values::Reads(values::without_line_end)) => values_of_all_bytes;
    "an empty value as a miss" with(values::Reads(values::unless_empty)) => empty_value_is_not_a_miss;
    "a limit that is off by one" with(values::OffByOne) => largest_value_fits;
    "no limit" over(MemoryBackend::new(), values::Unlimited) => too_large_is_refused;
    "values cut at the limit" with(values::CutsValues { refuses: false }) => too_large_is_refused;
    "refused and stored in part" with(values::CutsValues { refuses: true }) => too_large_is_refused;
    "too large in other words" with(values::TooLargeIsOutOfSpace) => too_large_is_refused;

    "keys cut at 250" with(keys::Stores(keys::cut_at_250)) => similar_keys_do_not_meet;
    "keys in lower case" with(keys::Stores(keys::in_lower_case))
        => clear_removes_the_prefix_only similar_keys_do_not_meet;
    "keys trimmed" with(keys::Stores(keys::trimmed)) => similar_keys_do_not_meet;
    "keys encoded by half" with(keys::Stores(keys::half_encoded)) => similar_keys_do_not_meet;
    "keys cut at a control character" with(keys::Stores(keys::cut_at_a_control_character))
        => control_characters_do_no_harm;
    "keys that are commands" with(keys::Injectable) => control_characters_do_no_harm;
    "the empty key as a name" with(keys::Stores(keys::empty_as_a_name)) => empty_key_is_refused;
    "the empty key to touch" with(keys::TakesTheEmptyKey::Touch) => empty_key_is_refused;
    "the empty key to ask for its ttl" with(keys::TakesTheEmptyKey::Ttl) => empty_key_is_refused;
    "the empty key to lock" with(keys::TakesTheEmptyKey::TryLock) => empty_key_is_refused;
    "no keys over 250 bytes" with(keys::Refuses(keys::over_250_bytes)) => keys_of_all_lengths similar_keys_do_not_meet;
    "no keys under 4 bytes" with(keys::Refuses(keys::under_4_bytes)) => keys_of_all_lengths;
    "no emoji in keys" with(keys::Refuses(keys::outside_the_basic_plane)) => keys_of_any_text;

    "a miss as an error" with(entries::MissIsAnError::default()) => missing_key_is_none;
    "acknowledged and dropped when full" with(entries::DropsWhenFull)
        => clear_removes_the_prefix_only delete_many_deletes_each set_many_sets_each set_then_get;
    "what was read goes first" with(entries::EvictsWhatWasRead::default()) => set_then_get;
    "set that compares lengths" with(entries::ComparesLengths) => set_overwrites;
    "set that only adds" with(entries::Adds)
        => cancellation_leaves_no_trace concurrent_keys_do_not_mix set_many_sets_each set_overwrites
            set_replaces_the_ttl too_large_is_refused zero_ttl_is_refused;
    "delete of the index only" with(entries::DeletesTheIndexOnly::default()) => delete_removes;
    "delete that does nothing" with(entries::StickyDelete)
        => delete_many_deletes_each delete_removes delete_reports_what_was_there;
    "delete of what is missing" with(entries::DeletesMissing) => delete_reports_what_was_there;
    "delete that is always true" with(entries::DeleteAlwaysSays(true))
        => delete_reports_what_was_there expired_entry_is_not_deleted;
    "delete that is always false" with(entries::DeleteAlwaysSays(false))
        => concurrent_keys_do_not_mix delete_reports_what_was_there;
    "delete that counts the expired" with(entries::DeletesExpired) => expired_entry_is_not_deleted;
    "exists for ever" with(entries::ExistsForEver::default()) => exists_agrees_with_get;
    "get_many sorted" with(entries::SortsKeys) => get_many_keeps_order;
    "get_many without misses" with(entries::LeavesOutMisses) => get_many_keeps_order;
    "get_many that fails together" with(entries::FailsTogether) => get_many_keeps_order;
    "get_many of 1,000 at most" with(batches::MissesBeyond(1_000)) => get_many_keeps_order;
    "set_many backwards" with(entries::SetsBackwards) => set_many_sets_each;
    "set_many for ever" with(entries::SetsManyForEver) => set_many_sets_each;
    "set_many of 100 at most" with(batches::DropsBeyond(100)) => set_many_sets_each;
    "set_many of 1,000 at most" with(batches::DropsBeyond(1_000)) => set_many_sets_each;
    "set_many of 1,000 bytes each" with(batches::SetsOtherwise(batches::cut_to_1_000_bytes)) => set_many_sets_each;
    "set_many for no time" with(batches::SetsOtherwise(batches::no_time_for_ever)) => set_many_sets_each;
    "set_many of too much" with(batches::SetsOtherwise(batches::cut_to_the_limit)) => set_many_sets_each;
    "set_many for whole milliseconds" with(batches::SetsOtherwise(batches::under_a_millisecond_for_ever))
        => set_many_sets_each;
    "delete_many until a miss" with(entries::DeletesUntilAMiss) => delete_many_deletes_each;
    "delete_many that looks first" with(batches::LooksThenDeletes) => delete_many_deletes_each;
    "delete_many of 1,000 at most" with(batches::DeletesUpTo(1_000)) => delete_many_deletes_each;
    "touch that empties" with(touches::TouchEmpties) => cancellation_leaves_no_trace touch_changes_the_ttl_only;
    "touch that creates" with(touches::TouchCreates) => touch_changes_the_ttl_only;
    "touch that does nothing" with(touches::TouchDoesNothing) => touch_changes_the_ttl_only;
    "touch for whole milliseconds" with(touches::TouchesForMilliseconds) => touch_changes_the_ttl_only;

    "milliseconds as seconds" with(times::Keeps(times::thousand_times_too_long))
        => expired_entry_is_not_deleted set_many_sets_each set_replaces_the_ttl
            sub_millisecond_ttl_rounds_up ttl_is_not_outlived ttl_reports_what_is_left ttl_units;
    "far too short" with(times::FarTooShort)
        => set_replaces_the_ttl sub_millisecond_ttl_rounds_up touch_changes_the_ttl_only ttl_is_kept
            ttl_reports_what_is_left ttl_units;
    "a third of the time" with(times::Keeps(times::a_third)) => ttl_is_kept;
    "every time ignored" with(times::Keeps(times::for_ever))
        => expired_entry_is_not_deleted set_many_sets_each set_replaces_the_ttl
            sub_millisecond_ttl_rounds_up ttl_is_not_outlived ttl_reports_what_is_left ttl_units;
    "a second at least" with(times::Keeps(times::for_a_second_at_least))
        => expired_entry_is_not_deleted set_many_sets_each set_replaces_the_ttl
            sub_millisecond_ttl_rounds_up ttl_is_not_outlived ttl_reports_what_is_left ttl_units;
    "reads that prolong" with(times::Sliding) => ttl_is_not_outlived;
    "a new value with the old end" with(times::KeepsTheOldEnd) => set_replaces_the_ttl;
    "a second by default, untold" with(times::QuietlyEnds) => no_ttl_is_for_ever;
    "a second by default" with(times::Keeps(times::for_a_second_by_default))
        => no_ttl_is_for_ever ttl_reports_what_is_left;
    "zero as for ever" with(times::Keeps(times::zero_for_ever)) => zero_ttl_is_refused;
    "under a millisecond as for ever" with(times::Keeps(times::whole_milliseconds_and_none_is_for_ever))
        => set_many_sets_each sub_millisecond_ttl_rounds_up;
    "under a millisecond as none" with(times::ForgetsTiny) => sub_millisecond_ttl_rounds_up;
    "seconds rounded down" with(times::Keeps(times::whole_seconds_above_one)) => sub_millisecond_ttl_rounds_up;
    "thirty days at most" with(times::Keeps(times::thirty_days)) => ttl_units;
    "huge times wrapped" with(times::Keeps(times::wrapped)) => huge_ttl_is_for_ever;
    "huge times refused" with(times::RefusesHuge) => huge_ttl_is_for_ever;
    "ttl in the wrong unit" with(times::Tells(times::milliseconds_as_seconds)) => ttl_reports_what_is_left;
    "ttl of a missing key" with(times::Tells(times::missing_as_endless)) => ttl_reports_what_is_left;

    "clear of everything" with(clears::Clears(clears::everything))
        => cancellation_leaves_no_trace clear_removes_the_prefix_only clear_takes_the_prefix_literally;
    "clear of nothing" with(clears::Clears(clears::nothing))
        => clear_removes_the_prefix_only clear_takes_the_prefix_literally;
    "clear anywhere" with(clears::Clears(clears::anywhere_in_the_key)) => clear_removes_the_prefix_only;
    "clear in any case" with(clears::Clears(clears::in_any_case)) => clear_removes_the_prefix_only;
    "clear but for the prefix itself" with(clears::Clears(clears::but_the_prefix_itself))
        => clear_removes_the_prefix_only;
    "clear of the first 1,000" with(clears::ClearsUpTo(1_000)) => clear_removes_the_prefix_only;
    "clear by glob" with(clears::Clears(clears::by_glob)) => clear_takes_the_prefix_literally;
    "clear by LIKE" with(clears::Clears(clears::by_like)) => clear_takes_the_prefix_literally;
    "clear without prefix" with(clears::ClearsAllWithoutPrefix) => clear_refuses_an_empty_prefix;

    "locks for everyone" with(locks::GivesToEveryone)
        => cancellation_leaves_no_trace lock_excludes_others lock_is_extended_by_its_owner_only lock_is_released_by_its_owner_only
            lock_leaves_the_entry_alone;
    "locks taken in two steps" with(locks::LooksThenTakes::default()) => lock_excludes_others;
    "locks without end" with(locks::NeverEnds) => lock_expires;
    "locks that end in a second step" with(locks::EndsInASecondStep) => cancellation_leaves_no_trace;
    "locks that are entries" with(locks::LockIsAnEntry) => lock_leaves_the_entry_alone;
    "one fence" with(locks::OneFence) => lock_fences_grow;
    "short locks" with(locks::TakesShortLocks) => short_lock_is_refused;
    "locks for no time" with(locks::TakesNoTime) => short_lock_is_refused;
    "locks cut to a sixth" with(locks::Cuts(locks::to_a_sixth)) => lock_excludes_others;
    "locks cut to a second" with(locks::Cuts(locks::to_a_second)) => lock_excludes_others;
    "locks extended by anyone" with(locks::AnyTokenWill { extends: true, ..Default::default() })
        => lock_is_extended_by_its_owner_only;
    "locks that are only extended to longer" with(locks::ExtendsToLongerOnly::default())
        => lock_is_extended_by_its_owner_only;
    "extend that does nothing" with(locks::ExtendDoesNothing) => lock_is_extended_by_its_owner_only;
    "locks released by anyone" with(locks::AnyTokenWill { releases: true, ..Default::default() })
        => lock_is_released_by_its_owner_only;

    "one channel" with(messages::Channels(messages::only_one)) => channels_do_not_mix;
    "channels in lower case" with(messages::Channels(messages::in_lower_case)) => channels_do_not_mix;
    "messages retained" with(messages::Retains::default()) => published_messages_arrive_in_order;
    "messages of 1,000 bytes at most" with(messages::DropsLong) => published_messages_arrive_in_order;
    "messages lost when dropped" with(messages::LosesWhenDropped)
        => channels_do_not_mix published_messages_arrive_in_order;
    "messages swapped" with(messages::Swaps)
        => channels_do_not_mix published_messages_arrive_in_order;

    "changes that nobody hears of" over(SHARED.clone(), tracking::Mute::default())
        => tracking_reports_changes_of_others;
    "removals that nobody hears of" over(SHARED.clone(), tracking::ReportsSetsOnly::default())
        => tracking_reports_changes_of_others;
    "the first prefix alone" over(SHARED.clone(), tracking::TracksTheFirst) => tracking_reports_changes_of_others;
    "every change there is" over(SHARED.clone(), tracking::Tracks(tracking::everything))
        => tracking_reports_the_prefixes_only;
    "changes of the neighbours" over(SHARED.clone(), tracking::Tracks(tracking::up_to_the_colon))
        => tracking_reports_the_prefixes_only;

    "replies mixed up" with(calls::MixesUp::default()) => concurrent_keys_do_not_mix;
    "values torn" with(calls::Tears) => overwrites_are_never_torn;
    "values missing while overwritten" with(calls::DeletesFirst) => overwrites_are_never_torn;
    "replies out of step" with(calls::OutOfStep::default()) => cancellation_leaves_no_trace;
    "deletes in two steps" with(calls::HalfDeletes) => cancellation_leaves_no_trace;
    "touches in two steps" with(dropped::HalfTouches) => cancellation_leaves_no_trace;
    "a connection gone with a clear" with(dropped::LosesItsConnection::on(Call::Clear)) => cancellation_leaves_no_trace;
    "a connection gone with a delete_many" with(dropped::LosesItsConnection::on(Call::DeleteMany))
        => cancellation_leaves_no_trace;
    "a connection gone with an extend" with(dropped::LosesItsConnection::on(Call::Extend))
        => cancellation_leaves_no_trace;
    "a connection gone with a publish" with(dropped::LosesItsConnection::on(Call::Publish))
        => cancellation_leaves_no_trace;
    "a connection gone with a set_many" with(dropped::LosesItsConnection::on(Call::SetMany))
        => cancellation_leaves_no_trace;
    "a connection gone with a touch" with(dropped::LosesItsConnection::on(Call::Touch)) => cancellation_leaves_no_trace;
    "a connection gone with a ttl" with(dropped::LosesItsConnection::on(Call::Ttl)) => cancellation_leaves_no_trace;
    "a connection gone with an unlock" with(dropped::LosesItsConnection::on(Call::Unlock))
        => cancellation_leaves_no_trace;
    "a name in upper case" with(calls::Named("Wrong")) => name_is_a_label;
    "no name" with(calls::Named("")) => name_is_a_label;
    "touch that is not declared" with(calls::Declares(calls::no_touch)) => capabilities_are_honest;
    "locks that are not declared" with(calls::Declares(calls::no_locks)) => capabilities_are_honest;
    "messages that are not declared" with(calls::Declares(calls::no_messages)) => capabilities_are_honest;
    "tracking that is not declared" with(calls::Declares(calls::no_tracking)) => capabilities_are_honest;
    "touch that is declared and missing" with(calls::CannotTouch)
        => capabilities_are_honest empty_key_is_refused touch_changes_the_ttl_only;
    "capabilities that are learnt" with(calls::Learns::default()) => capabilities_are_constant;
    "no health" with(calls::Health(None)) => health_answers;
    "a latency that was made up" with(calls::Health(Some(Duration::from_secs(60)))) => health_answers;
    "health that panics" with(calls::HealthPanics)
        => cancellation_leaves_no_trace closed_backend_works_or_says_closed health_answers;
    "misses once closed" with(calls::MissesOnceClosed::default()) => closed_backend_works_or_says_closed;
    "unavailable once closed" with(calls::UnavailableOnceClosed::default()) => closed_backend_works_or_says_closed;
    "closes once" with(calls::ClosesOnce::default()) => close_is_idempotent;
}
