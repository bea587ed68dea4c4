//! Name and sentence of every check, once; and the macro that makes a test of each.

/// Calls a macro with the arguments and the table.
#[doc(hidden)]
#[macro_export]
macro_rules! __each_check {
    ([$($then:tt)+] $arguments:tt) => { $($then)+! { $arguments
        values values_of_all_bytes "any bytes come back as they went in";
        values empty_value_is_not_a_miss "an empty value is a value, not a miss";
        values largest_value_fits "a value of `max_value_bytes` fits";
        values too_large_is_refused "one byte more than `max_value_bytes` is `TooLarge`, and the key holds nothing new";
        keys keys_of_all_lengths "every key of 1 to 1,024 bytes works";
        keys keys_of_any_text "every text without control characters is a key";
        keys similar_keys_do_not_meet "keys are never truncated, folded or trimmed";
        keys empty_key_is_refused "the empty key is `KeyInvalid`";
        keys control_characters_do_no_harm
            "a key with CR, LF or NUL round-trips or is `KeyInvalid`; it is no command and no other key";
        lifecycle capabilities_are_honest "an operation is `Unsupported` exactly when its capability is not declared";
        lifecycle closed_backend_works_or_says_closed "after `close`, an operation works as before or is `Closed`";
        concurrency concurrent_keys_do_not_mix "all methods may run at once, from any number of tasks";
        concurrency overwrites_are_never_torn "readers see the older or the newer value whole";
        cancellation cancellation_leaves_no_trace
            "a dropped call happened or did not, and everything after it works";
        lifecycle name_is_a_label "the name is short, fixed and in lower case";
        lifecycle capabilities_are_constant "capabilities are constant over a backend's life";
        entries missing_key_is_none "a miss is `Ok(None)`, not an error";
        ttl ttl_is_kept "an entry is returned for at least its time to live";
        ttl ttl_is_not_outlived "an entry is returned for at most its time to live and `ttl_slack`";
        entries set_then_get "`Ok` of `set` means that the next `get` sees the value";
        entries set_overwrites "`set` stores the value whatever was there before";
        ttl set_replaces_the_ttl "the time to live of a `set` replaces the older one, in both directions";
        ttl no_ttl_is_for_ever "an entry without a time to live stays";
        rounding zero_ttl_is_refused "a time to live of zero is `TtlInvalid` and changes nothing";
        rounding sub_millisecond_ttl_rounds_up "less than a millisecond counts as one, a part of a unit as a whole";
        rounding huge_ttl_is_for_ever "a time to live that is too long to express is for ever";
        rounding ttl_units "the unit of a time to live is right over four orders of magnitude";
        entries delete_reports_what_was_there "`delete` is `true` when a live entry was there";
        entries delete_removes "after `delete` the entry is gone";
        ttl expired_entry_is_not_deleted "an entry whose time had passed was not there to delete";
        lifecycle health_answers "`health` is one round trip to the store";
        entries exists_agrees_with_get "`exists` tells whether `get` would find a value";
        batch get_many_keeps_order "`get_many` gives a result per key, in their order, each as `get` would give it";
        batch set_many_sets_each
            "`set_many` gives a result per entry, each as `set` would; of two entries of one key the later wins";
        batch delete_many_deletes_each
            "`delete_many` gives a result per key, in their order, each as `delete` would give it";
        clear clear_removes_the_prefix_only "`clear` removes every key that starts with the prefix, and no other";
        clear clear_takes_the_prefix_literally "characters of the store's own patterns are plain text in a prefix";
        clear clear_refuses_an_empty_prefix "an empty prefix is `KeyInvalid`";
        ttl ttl_reports_what_is_left
            "`ttl` never tells more than was asked for, plus the slack, and not less than what is left";
        touch touch_changes_the_ttl_only "`touch` gives a live entry a new time to live and leaves its value alone";
        locks lock_excludes_others "a lock that somebody holds is not given to anybody else";
        locks lock_expires "a lock ends by itself when its time has passed";
        locks lock_leaves_the_entry_alone "a lock and an entry of the same key do not touch each other";
        locks lock_fences_grow "a fence grows with every acquisition";
        locks short_lock_is_refused "a lock for less than `min_lock_ttl` is `TtlInvalid`";
        locks lock_is_extended_by_its_owner_only "a lock is extended by the token that holds it, and by no other";
        locks lock_is_released_by_its_owner_only "a lock is released by the token that holds it, and by no other";
        messages published_messages_arrive_in_order
            "everyone who subscribed before gets every message of the channel, in order";
        messages channels_do_not_mix "nobody gets a message of another channel";
        tracking tracking_reports_changes_of_others
            "`track` reports every `set`, `delete`, `touch` and `clear` by others under the prefixes";
        tracking tracking_reports_the_prefixes_only "`track` reports no change of another key";
        lifecycle close_is_idempotent "closing twice is fine";
    } };
}

/// Makes a module with one test per sentence of the `Backend` contract.
///
/// The first argument names the module, the second is a closure that makes a backend: anything that implements
/// `Backend`, an `Arc<dyn Backend>` too. It is called once per test, inside a Tokio runtime of the kit's; the crate that
/// is tested needs none of its own.
///
/// ```
/// cachekit_conformance::conformance!(memory, || async { cachekit_core::testing::MemoryBackend::new() });
/// ```
#[macro_export]
macro_rules! conformance {
    ($module:ident, $make:expr $(,)?) => {
        $crate::__each_check! { [$crate::__tests] ($module, $make) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (($module:ident, $make:expr) $($group:ident $name:ident $sentence:literal;)*) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            #[allow(dead_code)]
            fn target() -> $crate::Target {
                $crate::Target::new($make)
            }

            $(
                #[test]
                fn $name() -> ::core::result::Result<(), $crate::Failure> {
                    $crate::run_named(::core::stringify!($name), &target())
                }
            )*
        }
    };
}
