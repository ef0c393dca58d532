//! Claims of stability: seed 2's workloads are no slower and no less stable than with no balancing at all.

use super::Verdict;
use crate::column::Column;
use crate::constants::Constants;
use crate::runs::over;
use crate::seed2::{self, RunNoise, Work};
use crate::stats::{cov_percent, median, min};
use crate::tables;

/// Seed 2: `works` on `per_socket` nodes per socket; `seeds` runs of each.
pub fn seed2(c: &Constants, per_socket: usize, works: &[Work], seeds: u64) -> Verdict {
    let mut verdict = Verdict::default();
    for &work in works {
        let target = tables::tip_cov(per_socket, work);
        let go = |column| over(seeds, |seed| seed2::run(c, per_socket, work, column, seed));
        let (none, ours) = (go(Column::None), go(Column::Numart));
        let noise = RunNoise::making(cov_percent(&none), target);
        let (none, ours) = (noise.applied_to(&none), noise.applied_to(&ours));
        let (middle, least) = (median(&ours) / median(&none), min(&ours) / min(&none));
        let case = format!(
            "seed 2 model {} NPS{per_socket} {work:?}, {seeds} runs: CoV none {:.2} % (aim {target}) numart {:.2} %; median {middle:.4}, minimum {least:.4} of none's",
            c.name,
            cov_percent(&none),
            cov_percent(&ours),
        );
        let calm = cov_percent(&ours) <= cov_percent(&none) * 1.001;
        verdict.hold(calm && middle >= 0.98 && least >= 0.95, || case.clone());
        verdict.line(case);
    }
    verdict
}
