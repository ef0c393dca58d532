//! A set of CPUs of any size.

use super::list;
use super::{CpuId, TopologyError};
use std::fmt;
use std::str::FromStr;

/// A set of CPUs: a bitset that grows, without a limit at 64 or 1,024.
///
/// Memory and the cost of the set operations are one bit per CPU number up to
/// the highest in the set. `Display` and [`CpuSet::parse_list`] use the
/// kernel's list form, `0-3,8`.
///
/// ```
/// use numart_alloc::topology::{CpuId, CpuSet};
///
/// let mut set = CpuSet::parse_list("0-3,8")?;
/// set.insert(CpuId(4000));
/// assert_eq!(set.to_string(), "0-3,8,4000");
/// assert_eq!(set.len(), 6);
/// # Ok::<(), numart_alloc::topology::TopologyError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` is CPU `n`. The last word is never zero,
    /// so that equal sets have equal words.
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set. Allocates nothing.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Reads the kernel's list form: numbers and inclusive ranges, joined by
    /// commas. Overlaps are fine and an empty text is the empty set.
    ///
    /// # Errors
    ///
    /// [`TopologyError::List`] if an item is no number or range, runs
    /// backwards, or goes beyond 16,383 (no Linux is built for more than 8,192
    /// CPUs; a wrong digit must not allocate gigabytes).
    pub fn parse_list(list: &str) -> Result<Self, TopologyError> {
        let mut set = Self::new();
        list::ranges(list, |from, to| (from..=to).for_each(|n| set.add(n)))?;
        Ok(set)
    }

    /// Reads the kernel's mask form: 32-bit hexadecimal words, highest first.
    pub(super) fn parse_mask(mask: &str) -> Result<Self, TopologyError> {
        let mut set = Self::new();
        list::mask_bits(mask, |n| set.add(n))?;
        Ok(set)
    }

    fn add(&mut self, number: u32) {
        self.insert(CpuId(number));
    }

    /// Adds a CPU; `true` if it was not there before.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a CPU out; `true` if it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        let was = self.contains(cpu);
        if was {
            self.words[word] &= !bit;
            self.trim();
        }
        was
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// How many CPUs are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is no CPU in the set.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest CPU.
    pub fn first(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            // Clears the lowest bit each step, so the cost is one per CPU.
            std::iter::successors(Some(word), |w| Some(w & w.wrapping_sub(1)))
                .take_while(|&w| w != 0)
                .map(move |w| CpuId(i as u32 * 64 + w.trailing_zeros()))
        })
    }

    /// The CPUs that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words);
        Self::from_words(words.map(|(a, b)| a & b).collect())
    }

    /// The CPUs that are in at least one of the sets.
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() >= other.words.len() { (self, other) } else { (other, self) };
        let mut words = long.words.clone();
        for (a, b) in words.iter_mut().zip(&short.words) {
            *a |= b;
        }
        Self::from_words(words)
    }

    /// The CPUs of this set that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words.clone();
        for (a, b) in words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
        Self::from_words(words)
    }

    fn from_words(words: Vec<u64>) -> Self {
        let mut set = Self { words };
        set.trim();
        set
    }

    /// Restores the invariant on the last word.
    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place(cpu: CpuId) -> (usize, u64) {
    (cpu.0 as usize / 64, 1 << (cpu.0 % 64))
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl FromStr for CpuSet {
    type Err = TopologyError;

    fn from_str(list: &str) -> Result<Self, TopologyError> {
        Self::parse_list(list)
    }
}

/// The list form, `0-3,8`; nothing for the empty set.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|c| c.0).peekable();
        let mut text = String::new();
        while let Some(from) = cpus.next() {
            let mut to = from;
            while let Some(next) = cpus.next_if(|&n| n == to + 1) {
                to = next;
            }
            if !text.is_empty() {
                text.push(',');
            }
            text += &from.to_string();
            if to > from {
                text += &format!("-{to}");
            }
        }
        // `pad` honours the widths that tables ask for.
        f.pad(&text)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        for (list, canonical) in [
            ("", ""),
            ("0", "0"),
            ("0-3,8", "0-3,8"),
            (" 7 , 0-1,1-2\n", "0-2,7"),
            ("63-64,127,128", "63-64,127-128"),
            ("16383", "16383"),
        ] {
            assert_eq!(CpuSet::parse_list(list).unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn bad_lists_are_errors_that_name_the_item() {
        for (list, item) in [
            ("0-3,x", "x"),
            (",", ""),
            ("0,,1", ""),
            ("3-1", "3-1"),
            ("-1", "-1"),
            ("+1", "+1"),
            ("1-2-3", "1-2-3"),
            ("0-16384", "0-16384"),
            ("99999999999", "99999999999"),
        ] {
            let error = CpuSet::parse_list(list).unwrap_err();
            match &error {
                TopologyError::List { item: found, .. } => assert_eq!(found, item),
                other => panic!("{other:?}"),
            }
            assert!(error.to_string().contains("0-3,8"), "{error}");
        }
    }

    #[test]
    fn masks_have_their_highest_word_first() {
        let mask = |text| CpuSet::parse_mask(text).unwrap().to_string();
        assert_eq!(mask("03"), "0-1");
        assert_eq!(mask("fc00,00000000"), "42-47");
        assert_eq!(mask("00000000,00000000"), "");
        for bad in ["", "xyz", "1,,2", "123456789"] {
            assert!(CpuSet::parse_mask(bad).is_err(), "{bad}");
        }
        let far = format!("1{}", ",00000000".repeat(512));
        assert!(CpuSet::parse_mask(&far).is_err(), "CPU 16384");
    }

    fn numbers() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(0..1500u32, 0..60)
    }

    fn set(numbers: &BTreeSet<u32>) -> CpuSet {
        numbers.iter().copied().map(CpuId).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(a in numbers(), b in numbers(), n in 0..1500u32) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(x.intersection(&y), set(&(&a & &b)));
            prop_assert_eq!(x.union(&y), set(&(&a | &b)));
            prop_assert_eq!(x.difference(&y), set(&(&a - &b)));
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(x.first().map(|c| c.0), a.first().copied());
            prop_assert_eq!(x.iter().map(|c| c.0).collect::<BTreeSet<_>>(), a.clone());
            prop_assert_eq!(x.contains(CpuId(n)), a.contains(&n));

            let (mut x, mut a) = (x, a);
            prop_assert_eq!(x.insert(CpuId(n)), a.insert(n));
            prop_assert_eq!(&x, &set(&a));
            prop_assert_eq!(x.remove(CpuId(n)), a.remove(&n));
            prop_assert_eq!(x, set(&a));
        }

        #[test]
        fn survives_as_a_list(a in numbers()) {
            prop_assert_eq!(CpuSet::parse_list(&set(&a).to_string()), Ok(set(&a)));
        }

        #[test]
        fn no_text_panics(text in "[-0-9a-fx, ]{0,40}|\\PC{0,40}") {
            let _ = CpuSet::parse_list(&text);
            let _ = CpuSet::parse_mask(&text);
        }
    }
}
