//! Seed 2: small imbalance. Pairs (tbench), wake-up tails (schbench), an overloaded machine (hackbench), STREAM.
//!
//! On two sockets of 64 CPUs with 8 L3 groups each, cut into one, two or four nodes per socket. A run's result is what the
//! rates give, times a *run factor*: what differs from run to run for reasons no placement explains. Its size is set so
//! that **none** shows the variation the mail's tip shows. Every seed's result is combined with the same ten factors, in all
//! columns: drawn by lot they correlated by chance with what placement did to *none*, and so told apart columns that are alike.

use crate::column::Column;
use crate::constants::Constants;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::seed0::warehouse;
use crate::world::{Owner, Task, World};

/// A workload of this seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// `n` workers, each a client and a server that pass messages: transactions per second.
    Pairs(usize),
    /// `n` workers that wake, work and sleep (0.85 of a CPU each): the inverse of the wake-up tail.
    Wakeups(usize),
    /// `n` groups of 40 tasks that all want to run.
    Groups(usize),
    /// A small program: one group of `n` tasks that pass messages, all started on one node of an idle machine.
    Together(usize),
    /// `n` threads that stream over their own memory; the L3 groups' own bandwidth counts.
    Stream(usize),
}

/// Standard deviation of the run factor, percent of the mean.
#[derive(Clone, Copy, Debug)]
pub struct RunNoise(pub f64);

/// Middles of the ten tenths of a standard normal distribution.
const TENTHS: [f64; 10] = [-1.6449, -1.0364, -0.6745, -0.3853, -0.1257, 0.1257, 0.3853, 0.6745, 1.0364, 1.6449];

impl RunNoise {
    /// The noise that makes results which vary by `own_cov` percent vary by `wanted_cov`; none if they already vary more.
    pub fn making(own_cov: f64, wanted_cov: f64) -> RunNoise {
        let (own, wanted) = (own_cov / 100.0, wanted_cov / 100.0);
        // Variances of a product of independent factors.
        let rest = (1.0 + wanted * wanted) / (1.0 + own * own) - 1.0;
        RunNoise(100.0 * rest.max(0.0).sqrt())
    }

    /// Every result with every one of the ten run factors.
    pub fn applied_to(self, results: &[f64]) -> Vec<f64> {
        let scale = (TENTHS.iter().map(|z| z * z).sum::<f64>() / 10.0).sqrt();
        let factor = |z: &f64| 1.0 + z / scale * self.0 / 100.0;
        results.iter().flat_map(|r| TENTHS.iter().map(move |z| r * factor(z))).collect()
    }
}

/// One run without run noise: higher is better in all of them.
pub fn run(c: &Constants, per_socket: usize, work: Work, column: Column, seed: u64) -> f64 {
    let mut world = build(c, per_socket, work, column, seed);
    world.run(10.0);
    let before: f64 = world.done_by_group().iter().sum();
    let mut tail: f64 = 0.0;
    let mut steps = 0.0;
    for k in 1..=20 {
        world.run(10.0 + k as f64 * 0.5);
        tail += wakeup_tail(&world);
        steps += 1.0;
    }
    let rate = (world.done_by_group().iter().sum::<f64>() - before) / 10.0;
    match work {
        Work::Wakeups(_) => steps / tail,
        Work::Stream(_) => rate * l3_share(&world, &mut Rng::new(seed ^ 0x13)),
        _ => rate,
    }
}

fn build(c: &Constants, per_socket: usize, work: Work, column: Column, seed: u64) -> World {
    let machine = Machine::two_socket(per_socket, c);
    let n = machine.nodes();
    let mut world = World::new(machine, column, c.idle_loss, seed);
    let mut dice = Rng::new(seed ^ 0x5EED_0002);
    let base = warehouse(c, 0, 1.0, 0);
    let (groups, members, task) = match work {
        Work::Pairs(n) => (n, 2, Task { busy_us: 8.0, private_lines: 10.0, shared_lines: 40.0, demand: 0.5, ..base }),
        Work::Wakeups(n) => {
            (n / 16, 16, Task { busy_us: 30.0, private_lines: 20.0, shared_lines: 5.0, demand: 0.85, ..base })
        }
        Work::Groups(n) => (n, 40, Task { busy_us: 5.0, private_lines: 10.0, shared_lines: 60.0, ..base }),
        Work::Together(n) => (1, n, Task { busy_us: 8.0, private_lines: 10.0, shared_lines: 40.0, ..base }),
        Work::Stream(n) => (1, n, Task { busy_us: 0.5, private_lines: 256.0, shared_lines: 0.0, sticky: 0.0, ..base }),
    };
    for g in 0..groups.max(1) {
        let g_index = world.add_group();
        debug_assert_eq!(g, g_index);
        let main = dice.below(n);
        for _ in 0..members {
            // Fork balancing: the least loaded node, ties by chance; a child of the group's parent otherwise.
            let spread = least_loaded(&world, &mut dice);
            let home = if matches!(work, Work::Together(_)) { main } else { spread };
            let mut t = task.clone();
            (t.group, t.home) = (g, home);
            let index = world.add_task(t);
            world.add_memory(Owner::Task(index), 8e6, 2e6, |_| home);
        }
        world.add_memory(Owner::Group(g), 4e6, 2e6, |_| main);
    }
    world
}

fn least_loaded(world: &World, dice: &mut Rng) -> usize {
    let n = world.machine.nodes();
    let mut load = vec![0.0; n];
    world.tasks.iter().for_each(|t| load[t.home] += t.demand);
    let least = load.iter().copied().fold(f64::INFINITY, f64::min);
    let ties: Vec<usize> = (0..n).filter(|&i| load[i] <= least + 1e-9).collect();
    ties[dice.below(ties.len())]
}

/// How much longer than an idle machine's the 99th percentile of wake-ups is: 1 plus the mean number of tasks that find
/// no CPU, over the nodes by their tasks (normal approximation, 2.33 standard deviations for the 99th percentile).
fn wakeup_tail(world: &World) -> f64 {
    let n = world.machine.nodes();
    let (mut load, mut variance) = (vec![0.0; n], vec![0.0; n]);
    for t in world.tasks.iter().filter(|t| !t.ended) {
        load[t.node] += t.demand;
        variance[t.node] += t.demand * (1.0 - t.demand);
    }
    let total: f64 = load.iter().sum();
    (0..n)
        .map(|i| {
            let cpus = world.machine.cpus[i] as f64 - world.neighbour[i];
            let over = (load[i] + 2.33 * f64::sqrt(variance[i]) - cpus).max(0.0);
            load[i] / total.max(1e-9) * (1.0 + over / cpus)
        })
        .sum()
}

/// STREAM threads on one L3 share its bandwidth: within a node the system spreads them over the L3 groups, but one run
/// in ten puts two together although another is free (seed 2: "some cases ... co-located on the same LLC").
fn l3_share(world: &World, dice: &mut Rng) -> f64 {
    let n = world.machine.nodes();
    let mut speed = 0.0;
    for i in 0..n {
        let tasks = world.tasks.iter().filter(|t| t.node == i).count();
        let groups = world.machine.l3[i].max(1);
        let mut by_l3 = vec![0usize; groups];
        (0..tasks).for_each(|k| by_l3[k % groups] += 1);
        if groups > 1 && tasks > 1 && tasks <= groups && dice.below(10) == 0 {
            by_l3[0] += 1;
            by_l3[(tasks - 1) % groups] -= 1;
        }
        // Two threads nearly saturate an L3's link (a thread alone takes 0.6 of it).
        speed += by_l3.iter().map(|&k| (k as f64).min(1.0 / 0.6)).sum::<f64>();
    }
    speed / world.tasks.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::RunNoise;
    use crate::stats::cov_percent;

    #[test]
    fn run_noise_gives_the_variation_that_is_asked_for() {
        let own: Vec<f64> = (0..100).map(|k| 100.0 + f64::from(k % 7)).collect();
        let noise = RunNoise::making(cov_percent(&own), 3.26);
        let cov = cov_percent(&noise.applied_to(&own));
        assert!((cov - 3.26).abs() < 0.02, "{cov}");
        assert_eq!(RunNoise::making(5.0, 3.26).0, 0.0);
    }
}
