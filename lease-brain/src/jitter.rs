//! A little more or less, so that pods that were started together do nothing in step.

use std::ops::RangeInclusive;
use std::time::Duration;

/// `average`, times something of this range: where in it, `random` says, from 0 to 1.
///
/// The longest duration there is stands for all that would be longer.
pub(crate) fn around(average: Duration, range: RangeInclusive<f64>, random: f64) -> Duration {
    let (least, most) = range.into_inner();
    let times = least + (most - least) * random;
    Duration::try_from_secs_f64(average.as_secs_f64() * times).unwrap_or(Duration::MAX)
}

#[test]
fn jitter_stays_in_its_range_however_long_the_average() {
    let seconds = Duration::from_secs_f64;
    for (random, expected) in [(0.0, 7.5), (0.25, 8.75), (0.5, 10.0), (1.0, 12.5)] {
        assert_eq!(
            around(seconds(10.0), 0.75..=1.25, random),
            seconds(expected)
        );
    }
    assert_eq!(around(Duration::ZERO, 0.75..=1.25, 1.0), Duration::ZERO);
    assert_eq!(around(Duration::MAX, 0.75..=1.25, 1.0), Duration::MAX);
}
