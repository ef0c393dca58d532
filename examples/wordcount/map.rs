//! Counting words: a hash map of its own, because the one of the standard library hashes safely, not fast, and allocates
//! each word by itself.

/// One word. Free if the count is 0.
#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    count: u64,
    /// Where the word begins in the text of all words.
    start: u32,
    len: u32,
}

/// How often each word occurred.
#[derive(Default)]
pub struct WordMap {
    /// A power of two, or none; never more than three quarters in use.
    slots: Vec<Slot>,
    used: usize,
    /// All words, one after the other.
    text: Vec<u8>,
}

impl WordMap {
    /// Number of different words.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Counts a word whose hash is known `count` times more.
    pub fn add(&mut self, hash: u64, word: &[u8], count: u64) {
        if self.used * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.count == 0 {
                let start = u32::try_from(self.text.len()).expect("a map holds less than 4 GiB of words");
                *slot = Slot { hash, count, start, len: word.len() as u32 };
                self.text.extend_from_slice(word);
                self.used += 1;
                return;
            }
            let start = slot.start as usize;
            if slot.hash == hash && &self.text[start..start + slot.len as usize] == word {
                slot.count += count;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Each word with its hash and count, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8], u64)> {
        self.slots.iter().filter(|slot| slot.count > 0).map(|slot| {
            let start = slot.start as usize;
            (slot.hash, &self.text[start..start + slot.len as usize], slot.count)
        })
    }

    /// How often a word was counted.
    pub fn get(&self, hash: u64, word: &[u8]) -> u64 {
        if self.slots.is_empty() {
            return 0;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            let start = slot.start as usize;
            if slot.count == 0 || slot.hash == hash && &self.text[start..start + slot.len as usize] == word {
                return slot.count;
            }
            at = (at + 1) & mask;
        }
    }

    /// Forgets all words and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(Slot::default());
        self.used = 0;
        self.text.clear();
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        for slot in old.into_iter().filter(|slot| slot.count > 0) {
            let mut at = slot.hash as usize & (size - 1);
            while self.slots[at].count > 0 {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = slot;
        }
    }
}

/// Eight bytes at a time: multiply to 128 bits and fold the halves, as wyhash does.
pub fn hash(word: &[u8]) -> u64 {
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }
    let mut state = word.len() as u64 ^ 0x2d35_8dcc_aa6c_78a5;
    let mut chunks = word.chunks_exact(8);
    for chunk in &mut chunks {
        let eight = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        state = fold(state ^ eight, 0x8bb8_4b93_962e_acc9);
    }
    let mut last = 0;
    for &byte in chunks.remainder() {
        last = last << 8 | u64::from(byte);
    }
    fold(state ^ last, 0x4b33_a62e_d433_d4a3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_counts_like_the_standard_one() {
        let mut map = WordMap::default();
        let mut plain = std::collections::HashMap::<Vec<u8>, u64>::new();
        for round in 0..2 {
            for i in 0..50_000_u64 {
                let word = format!("w{}", i * i % 7919 % 4000).into_bytes();
                map.add(hash(&word), &word, 1);
                *plain.entry(word).or_default() += 1;
            }
            assert_eq!(map.len(), plain.len());
            assert_eq!(map.iter().count(), plain.len());
            for (hash, word, count) in map.iter() {
                assert_eq!(plain[word], count);
                assert_eq!(map.get(hash, word), count);
            }
            assert_eq!(map.get(hash(b"absent"), b"absent"), 0);
            if round == 0 {
                map.clear();
                plain.clear();
                assert_eq!(map.len(), 0);
            }
        }
    }

    #[test]
    fn the_hash_looks_at_every_byte_and_at_the_length() {
        let words: Vec<Vec<u8>> = (0..40).map(|len| vec![b'a'; len]).collect();
        let mut hashes: Vec<u64> = words.iter().map(|word| hash(word)).collect();
        for i in 0..39 {
            let mut word = words[39].clone();
            word[i] = b'b';
            hashes.push(hash(&word));
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 40 + 39);
    }
}
