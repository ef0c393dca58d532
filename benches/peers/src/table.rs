//! Medians and ratios, as markdown.

use crate::sample::{Distance, Sample};
use std::fmt::Write as _;

/// One table for each work and number of workers, in the order of the samples.
pub fn markdown(samples: &[Sample], threshold: f64) -> String {
    let mut out = String::new();
    for (bench, workers) in distinct(samples.iter().map(|s| (s.bench.as_str(), s.workers))) {
        let here: Vec<&Sample> = samples.iter().filter(|s| s.bench == bench && s.workers == workers).collect();
        table(&mut out, bench, workers, &here, threshold).expect("writing to a string cannot fail");
    }
    out
}

/// Samples of each class, and the round trips seen.
pub fn summary(samples: &[Sample], threshold: f64) -> String {
    let count = |distance| samples.iter().filter(|s| s.distance(threshold) == distance).count();
    let mut bounces: Vec<f64> = samples.iter().flat_map(|s| s.bounces).filter(|ns| !ns.is_nan()).collect();
    bounces.sort_by(f64::total_cmp);
    let at = |part: f64| bounces.get(((bounces.len().max(1) - 1) as f64 * part) as usize).copied().unwrap_or(f64::NAN);
    format!(
        "{} samples: {} near, {} far, {} mixed (not shown). Round trip of a cache line in ns: least {:.0}, \
         quartiles {:.0} {:.0} {:.0}, most {:.0}; near is below {threshold:.0}.\n",
        samples.len(),
        count(Distance::Near),
        count(Distance::Far),
        count(Distance::Mixed),
        at(0.0),
        at(0.25),
        at(0.5),
        at(0.75),
        at(1.0),
    )
}

fn table(out: &mut String, bench: &str, workers: usize, samples: &[&Sample], threshold: f64) -> std::fmt::Result {
    let median = |column: &str, distance| {
        let of = samples.iter().filter(|s| s.column == column && s.distance(threshold) == distance);
        median(of.map(|s| s.ns).collect())
    };
    let s = if workers == 1 { "" } else { "s" };
    writeln!(out, "### {bench}, {workers} worker{s}\n")?;
    writeln!(out, "| runtime | near: samples | ns | / serial | / rayon | far: samples | ns | / serial | / rayon |")?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for column in distinct(samples.iter().map(|s| s.column.as_str())) {
        write!(out, "| {column} |")?;
        for distance in [Distance::Near, Distance::Far] {
            let (count, ns) = median(column, distance);
            let [serial, rayon] = ["serial", "rayon"].map(|other| ns / median(other, distance).1);
            write!(out, " {count} | {} | {} | {} |", cell(ns), cell(serial), cell(rayon))?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Three digits or so; nothing where there was no sample.
fn cell(value: f64) -> String {
    match value {
        v if v.is_nan() => String::new(),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn median(mut values: Vec<f64>) -> (usize, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = match n {
        0 => f64::NAN,
        _ => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    };
    (n, median)
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(column: &str, bounce: f64, ns: f64) -> Sample {
        Sample { bench: "tree".into(), workers: 2, column: column.into(), bounces: [bounce; 2], ns }
    }

    #[test]
    fn ratios_are_taken_within_a_class() {
        let samples = [
            sample("serial", 60.0, 2.0),
            sample("rayon", 60.0, 8.0),
            sample("rayon", 60.0, 4.0),
            sample("rayon", 60.0, 6.0),
            sample("rayon", 320.0, 100.0),
        ];
        let table = markdown(&samples, 140.0);
        assert!(table.contains("| serial | 1 | 2.00 | 1.00 | 0.33 | 0 |  |  |  |"), "{table}");
        assert!(table.contains("| rayon | 3 | 6.00 | 3.00 | 1.00 | 1 | 100 |  | 1.00 |"), "{table}");
    }

    #[test]
    fn the_median_of_an_even_number_is_the_middle_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), (4, 2.5));
        assert!(median(vec![]).1.is_nan());
    }
}
