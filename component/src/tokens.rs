//! How many tokens a text can be at most, for models whose tokenizer the host does not have (R33).
//!
//! The bound is never under the o200k and cl100k counts: every step below is a fact about both vocabularies and both
//! ways of cutting a text into pieces, and `tests/tokens.rs` holds it against the real encoders. Exact counts are the
//! host's; which of the two a budget is compared with is the business of `capacity`.
//!
//! # Why it holds
//!
//! Both encoders cut a text into pieces (a word with the space before it, up to three digits, a run of signs, a run of
//! blanks) and join bytes inside a piece for as long as two neighbours together are in the vocabulary. So in the end no
//! two neighbouring tokens of a piece are together a known token, and three facts follow:
//!
//! 1. Two or three bytes of one piece that are a token in both vocabularies are not exactly two tokens. `Most` finds
//!    the most tokens that this leaves possible: about `2n/3` in a word of `n` letters from the pairs alone, near `n/2`
//!    where the triples are known too.
//! 2. A piece that as a whole is in both vocabularies is one token: the words in `common_words.txt`, and one to three
//!    digits.
//! 3. In a run of one blank, any two neighbouring tokens are together longer than the longest run that is a token.
//!
//! Whatever these facts don't cover counts one token for each byte, which no encoder exceeds.
//!
//! # Why it is quick
//!
//! Every memory of a delegation is counted, byte for byte. Where a piece begins only the count matters, and most words
//! of a text are in the list: one look into a table each. For the others, all that fact 1 can lead to is in tables as
//! well (`ENDINGS`, `LOWER`), which are made when this is compiled.

/// Words that after a space, in lower case, are one token in both vocabularies. Other spellings of them (with a
/// capital, without a space) are at most two, or one where the list has the word with a capital. Behind another ASCII
/// sign, which may share their piece, they add one token more at most; before a contraction (`'s`, `'ll`) they add no
/// more than [`upper_bound`] counts for both. `tests/tokens.rs` checks every word for this.
///
/// Of all such words these are the ones with the lowest ranks in cl100k, which are roughly the most frequent, as many
/// as take 14,000 bytes with five bits a letter and one for the capital. Left out are words whose rank in o200k is
/// below 0.8 times that in cl100k (mostly not English), and those whose sum of ranks is within 5% of that of a longer
/// word which they begin (`introdu`). One a line, sorted by length, then by letters.
const COMMON_WORDS: &[u8] = include_bytes!("common_words.txt");

/// How many letters they have. Longer ones would not fit: five bits a letter and one for the capital in 64.
const SHORTEST_WORD: usize = 2;
const LONGEST_WORD: usize = 12;

/// Which two ASCII characters are one token in both vocabularies: bit `b` of row `a - 0x20`.
#[rustfmt::skip]
const ASCII_PAIRS: [u128; 95] = [
    0x7ffffffffffffffffc00fffe00000000, 0x0000000038000000a400d78600000000, 0x39080913b89973bedc00fffc00000000,
    0x08800082080000000400d81e00000000, 0x095ff65e900002000400d11000000000, 0x010862185000003f280073a600000000,
    0x009fa022809d203e0000134800000000, 0x2a3cf336f818b33afc00ffbc00000000, 0x5fffffffdfffffff9c00effe00000000,
    0x3b59e23ff8401000fc00fffe00000000, 0x07ff7fde9818680b6400f75400000000, 0x039d7f1e3800000e2400fb9c00000000,
    0x0ffffffe9fffffff1400fffe00000000, 0x0ffffffe9ffffffe6000f7f400000000, 0x1fffffffffffffffbc00fffe00000000,
    0x4ffffffefffffffff400fffc00000000, 0x000000000000000003ff000000000000, 0x000000000000000003ff000000000000,
    0x000000000000000003ff000000000000, 0x000000000000000003ff000000000000, 0x000000000000000003ff000000000000,
    0x000000000000000003ff000000000000, 0x000000000000000003ff000000000000, 0x000000000000000003ff000000000000,
    0x000000000000000003ff000000000000, 0x000000000000000003ff000000000000, 0x0bddfffff919737fb400fffc00000000,
    0x231ffe0e100000001800f3f400000000, 0x09f9634e89fffffef000a1d200000000, 0x2fffffff9999701ff400e5fe00000000,
    0x398800173d197a3ffc00f7fc00000000, 0x005b000218000000d400739600000000, 0x00082080180000010000011400000000,
    0x07fdffdc07fffffe0000000000000000, 0x022c92a203fdfffe0000000000000000, 0x032c933e03fdfbfe0000000000000000,
    0x003c822603fdfffe0000000000000000, 0x037f785c05fffbfe0000000000000000, 0x012cd23a03bdfbfe0000000000000000,
    0x002c922603fdf3fe0000000000000000, 0x0621822207fffbfe0000000000000000, 0x011df85005fffffe0000000000000000,
    0x00288022005dae3e0000000000000000, 0x0204432202ddfbfe0000000000000000, 0x0270c262027dfafe0000000000000000,
    0x023d823e03fffffe0000000000000000, 0x032ca3b607fdfffe0000000000000000, 0x001d7b5401fdfbfe0000000000000000,
    0x033c9ba203fdfffe0000000000000000, 0x00300200003f702e0000000000000000, 0x0129812203fdfbfe0000000000000000,
    0x06b7fb2a07fffffe0000000000000000, 0x03ed8b3207fdfbfe0000000000000000, 0x001d7304037d7afe0000000000000000,
    0x0228aa22005dfafe0000000000000000, 0x020c8322019dfbfe0000000000000000, 0x00000210031d327e0000000000000000,
    0x002080220699f0aa0000000000000000, 0x000001200784c1620000000000000000, 0x0ffffffffb5d7eff0400b5bc00000000,
    0x017c4076180920201400e19400000000, 0x3800000078000000fc00ffe400000000, 0x08000000580000000000610000000000,
    0x1ffffffefffffffe3c00f7b400000000, 0x20180001300000000c00520000000000, 0x07fffffe000000000000000000000000,
    0x07fdfffe000000000000000000000000, 0x07fffffe000000000000000000000000, 0x07fffffe000000000000000000000000,
    0x07fffffe000000000000000000000000, 0x03fffbfe000000000000000000000000, 0x07fdf3fe000000000000000000000000,
    0x07fffbfe000000000000000000000000, 0x07fffffe000000000000000000000000, 0x003fff7e000000000000000000000000,
    0x02fdfffe000000000000000000000000, 0x07fdfffe000000000000000000000000, 0x03fffffe000000000000000000000000,
    0x07fdfffe000000000000000000000000, 0x07fdfffe000000000000000000000000, 0x07fffffe000000000000000000000000,
    0x01bf733e000000000000000000000000, 0x07fffbfe000000000000000000000000, 0x07fffffe000000000000000000000000,
    0x07fdfbfe000000000000000000000000, 0x07fdfffe000000000000000000000000, 0x03fdfffe000000000000000000000000,
    0x03bdfffe000000000000000000000000, 0x071df27e000000000000000000000000, 0x07bdfbbe000000000000000000000000,
    0x07b9fb7e000000000000000000000000, 0x39088a00100000010400a0b400000000, 0x10000000100000000000210400000000,
    0x38080001b8000001fc00f3f400000000, 0x40000000000000002000b00000000000,
];

/// Those of them that stay [`in_one_piece`], halved: WebAssembly shifts 128 bits by a call.
static PAIRS: [[u64; 2]; 95] = pairs();

const fn pairs() -> [[u64; 2]; 95] {
    let mut pairs = [[0; 2]; 95];
    let mut row = 0;
    while row < pairs.len() {
        let mut byte = 0;
        while byte < 0x80 {
            if ASCII_PAIRS[row] >> byte & 1 == 1 && in_one_piece(b' ' + row as u8, byte) {
                pairs[row][byte as usize / 64] |= 1 << (byte % 64);
            }
            byte += 1;
        }
        row += 1;
    }
    pairs
}

/// Which three lower-case letters, the first of them perhaps a space, are one token in both vocabularies: bit
/// `(a * 26 + b) * 26 + c` with `a` 0 for a space and 1 to 26 for a letter, `b` and `c` 0 to 25; 64 bits a row.
#[rustfmt::skip]
const TRIPLES: [u64; 286] = [
    0xfffffbfffffeffff, 0xffffffffffffffff, 0xffffefbff7ffffff, 0x7f6c7fefffff7fbf, 0xff7fbffff7effdf0,
    0xefdffffbffffffff, 0xfc5f81077fffffff, 0xfffffffffffffff7, 0xfffbf7fffebdffff, 0xe1556fbe4ffcefdf,
    0xc0a280db51d76d0e, 0x4e7f0e4dbd419267, 0x21004ec04000d6b9, 0x808049a4051e61d1, 0x1c459105104440e3,
    0xf751cd91b47175f5, 0x3b3644000000c319, 0x9d47bf5fc1000004, 0xe086ec7936471cfd, 0x41042d0141985448,
    0x1044404401140000, 0x4000005b1e7ccec4, 0x2dfe000002000000, 0x000000000000204e, 0x00020e6a5f000000,
    0x0091044000000000, 0x8030000008008000, 0x0000000100001ce6, 0x0100800080410044, 0x0000010e18680008,
    0x1000000000000000, 0xef82e00000000020, 0x9000410f00000100, 0x0018016be3f00880, 0x9579b54400010000,
    0x411100000000ee81, 0x004800a01814c40c, 0x0080feb818020000, 0x4014450000000442, 0x81021a2004260000,
    0x00000800000000e9, 0, 0x0123110ff87c4000, 0x7f410206c0000040, 0x000100100006aefc,
    0x002e707d00000000, 0x0210000000000000, 0x6010040400000100, 0x000000004000c314, 0x0082800481004400,
    0x0000828414001000, 0, 0x0080000400002000, 0x0c619d000000c8a3, 0x0e40628184510466,
    0x0800000848410300, 0x0100000000028080, 0x4d11b473e4e40c41, 0x00000000cf197751, 0xbd57c10000041000,
    0x0c7906570cc5954b, 0x2000020004406000, 0x0000011023005004, 0x0000af282e000000, 0x0100000000004000,
    0x00002004f442281f, 0x8a284e0000000000, 0x0200000000000000, 0x0000000800004610, 0x0001000008668000,
    0x8800000040440000, 0x0002280041200400, 0, 0, 0x0004000000506b81,
    0x04e789a000000000, 0x0400000000200000, 0x00000000c6839020, 0x0004004440000000, 0x6e70080400040080,
    0x0440000000500000, 0x0010400800000030, 0x0000000000021110, 0, 0x010eb90a00000000,
    0x8200000800000000, 0x00000001ae3d1900, 0xb80e000020000000, 0x000000000000000e, 0x0000000001000000,
    0x00200005eb875000, 0x0000100004000000, 0x04100b0200444000, 0, 0x0000000080000000,
    0x9507904460ef89c0, 0xe3f6c61124e70c4d, 0x011e71d147904c67, 0x1946400010804000, 0xb43174641c459104,
    0x380ceb797f414d15, 0x41000004b32654be, 0x46471cdd9d435747, 0x4090444041000c79, 0x0010010044000000,
    0xe63c8e8490444000, 0x0000000000000001, 0x0000000e32140001, 0x1800000000000000, 0x0000000000000c20,
    0x0000800000000000, 0x0010104300200004, 0, 0x2048000000080800, 0x0080000000000002,
    0, 0x00000200ea888000, 0x8990000000000000, 0x00000000000010e2, 0x0000ab8180000000,
    0x0000400000100000, 0x0100000000000000, 0x00000000000026bc, 0x4000010000000400, 0x0000006080000000,
    0, 0xb0ce000000000000, 0xc00000801020016e, 0x0003eef5fd018000, 0x0100000000000000,
    0x00000000002cf65f, 0x0000000400464000, 0x000eeecde0000100, 0x2000000000000000, 0x4100810408801110,
    0x0000000020008c00, 0x0004200100000000, 0x000018eafec00000, 0x8000240800000000, 0x000000000020e3c4,
    0x08e281d000000002, 0, 0x0200000001001200, 0x00000826022e380a, 0x0000400000000000,
    0x0108e29000100000, 0, 0x8800000000480000, 0x0000000800022ebc, 0x036e6ed901120440,
    0x0000082401100000, 0x000000000cfc9d00, 0, 0x06eb02c000000000, 0x0000000000000481,
    0x4102240080000000, 0x0000000000081000, 0x0010010000000000, 0xc4c0000080000000, 0x51046f0e4d954112,
    0xd103004800420004, 0xe2808000a0050669, 0xe414411100004000, 0x1856504d1134f135, 0x043b26540afc08c3,
    0xc995c7bd5fc00000, 0x4aea94a03b06440c, 0x0001046911401044, 0x4000040004001400, 0x18201000010e2d4c,
    0x0f2d5c0010080041, 0x4440000000000002, 0x0000008ee05c4020, 0x0043020440800400, 0xea90800001000000,
    0x6400000043100404, 0x9024708010403104, 0x800000000e200241, 0, 0,
    0, 0, 0x0080000000000000, 0, 0x0000008000000400,
    0, 0x0042000000000000, 0x4411142000000000, 0, 0,
    0x00000003cfbbee00, 0xfdff000008000008, 0x00000020000003ff, 0x0002aefe7f011000, 0,
    0xd5e0000164000000, 0x0000000004013feb, 0x0100c80010000000, 0x0000020cb44a0002, 0,
    0xab80800000000420, 0x0002808000000012, 0x000018ffd5d00010, 0xc008044400010000, 0x010200000008cb85,
    0x0040000000000510, 0x2464003804010002, 0x0800010000800409, 0x00245956640c89a5, 0x00000000281100eb,
    0x0000430000000000, 0x0020009eb8420000, 0x1d00000000080000, 0x0080000000008ebc, 0x0008b81c41800440,
    0x0004000000000000, 0xd000000000880001, 0x000000020010efd4, 0x1800000651244400, 0x0000020000402244,
    0x0208000004000000, 0x8000000000008000, 0x0c4594411044c0a2, 0x0c20e38084530466, 0x00a0401441d10300,
    0x1104000440e280a0, 0x4f91b47335e41841, 0x640400000719d741, 0x9e5ec00000043300, 0x0c3946d61ec59747,
    0x0000101004002100, 0x0004011000004000, 0x00000e2c14840004, 0, 0x00000000030e288c,
    0x0efc5d0000000000, 0x0000000000000002, 0, 0x0000080018628080, 0x0800000100400000,
    0x0000001000010000, 0, 0, 0x000000000012ea80, 0x002294a000000000,
    0, 0x00000000c2e58401, 0, 0x4260000000020000, 0,
    0, 0, 0x0200000000004000, 0xfc00003f00000000, 0x000fc00003f00000,
    0x000000fc04003f00, 0x2005008000000000, 0x000000000000002c, 0x0000000800010000, 0x0000000022000000,
    0, 0, 0, 0x0000020000002000, 0x8000000004e28800,
    0xe200000000020008, 0, 0x0000000010000000, 0x0000204400000000, 0x2000400805400111,
    0x0000000400004012, 0x0202080100000004, 0x0000000003000020, 0, 0x06a0440000001000,
    0, 0x0000004e3e180000, 0x5100000000000000, 0x00000000000000a4, 0,
    0x0000004200000000, 0, 0x0040000004000000, 0, 0x0004001000000000,
    0x0000000000000001,
];

/// What is known of two lower-case letters, the first of them perhaps a space, by the last five bits of each: [`PAIR`]
/// if they are one, and shifted left by `c & 31`, [`TRIPLE`] if they are one with the letter `c`.
static LOWER: [[u32; 32]; 32] = lower();

const fn lower() -> [[u32; 32]; 32] {
    let mut lower = [[0; 32]; 32];
    let mut bit = 0;
    while bit < 27 * 26 * 26 {
        let (a, b, c) = (bit / (26 * 26), bit / 26 % 26 + 1, bit % 26 + 1);
        let first = if a == 0 { b' ' } else { a as u8 | 0x60 };
        lower[a][b] |= is_pair(first, b as u8 | 0x60) as u32 * PAIR as u32;
        lower[a][b] |= ((TRIPLES[bit / 64] >> (bit % 64) & 1) as u32 * TRIPLE as u32) << c;
        bit += 1;
    }
    lower
}

/// Which first two bytes of a longer UTF-8 character are one token in both vocabularies: bit `b - 0x80` of row
/// `a - 0xc2`.
#[rustfmt::skip]
static UTF8_PAIRS: [u64; 51] = [
    0xfeffffff00040001, 0x3f7fffff94cb629f, 0x000308008a0b20aa, 0x5402882a8a0a2014, 0x0001000200000000,
    0, 0x000000000a000000, 0x0020000002000000, 0, 0,
    0x0000000000000003, 0, 0xbfbef00000000000, 0x00000000000012ff, 0xffffa0dffdbf0004,
    0x000000000042ffff, 0, 0, 0, 0,
    0, 0x0000070552bb0000, 0x07ffffa800001000, 0x400000000007c7fe, 0x0000820000000000,
    0x0000000000001000, 0, 0, 0, 0,
    0x37ffcff000000000, 0x0c000000c0000009, 0x0000000073f20377, 0x000000000000002f, 0xff00000000000000,
    0xff87e0bfb87bffeb, 0x1ffff02bfff6ff1b, 0x7c36fff63e31c312, 0xe0ffe7ce0201bf8f, 0x4800024f3ffc108f,
    0x03af000000000000, 0x014d86ebc019ac34, 0x024500d17fe00c7c, 0x000000000320141a, 0,
    0xf100000000000004, 0x00000000a0000000, 0, 0, 0,
    0,
];

/// The most tokens that `text` can be in o200k and in cl100k; never more than its bytes.
///
/// Linear in the length of `text`. Special tokens in it count as ordinary text, as they do in the exact counts.
pub fn upper_bound(text: &str) -> u32 {
    count(text, &[]).tokens()
}

/// A text whose tokens were counted, and where that can be gone on from.
#[derive(Clone, Copy)]
pub struct Counted {
    most: Most,
    bytes: usize,
}

impl Counted {
    /// Its [`upper_bound`].
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.most.tokens).unwrap_or(u32::MAX)
    }
}

/// Counts a text of which parts were counted before, each given with where it begins, in their order: exactly what counting
/// all of it comes to, and only what lies around them takes time.
pub fn count(text: &str, parts: &[(usize, Counted)]) -> Counted {
    let bytes = text.as_bytes();
    let mut most = Most { tokens: 0, ending: PIECE };
    let mut at = 0;
    let mut parts = parts.iter();
    let mut part = parts.next();
    while let Some(&byte) = bytes.get(at) {
        if let Some((start, counted)) = part
            && *start <= at
        {
            part = parts.next();
            let to = at.saturating_add(counted.bytes);
            if *start == at && most.ending == PIECE && stands_alone(bytes, at, to) {
                most = Most { tokens: most.tokens + counted.most.tokens, ..counted.most };
                at = to;
            }
            continue;
        }
        at = match kind(byte) {
            Kind::Letter => letters(bytes, at, &mut most),
            Kind::Blank if begins_word(bytes, at) => words(bytes, at, &mut most),
            Kind::Blank if begins_piece(bytes, at) => {
                most.cut();
                most.byte(0);
                at + 1
            }
            Kind::Blank => blanks(bytes, at, &mut most),
            Kind::Digit => digits(bytes, at, &mut most),
            Kind::Sign => sign(bytes, at, &mut most),
            Kind::Wide => wide(bytes, at, &mut most),
        };
    }
    Counted { most, bytes: bytes.len() }
}

/// Whether these bytes count the same in their place as by themselves: a line break stands around them, which is what
/// [`earlier`] has before a text and what no rule tells from a text's end, and blanks of their own would make a run with it.
fn stands_alone(bytes: &[u8], from: usize, to: usize) -> bool {
    let blank = |at: usize| bytes.get(at).is_none_or(|&byte| kind(byte) == Kind::Blank);
    // Behind an apostrophe may be a contraction, as far as two letters away.
    let apostrophe = (2..=3).any(|back| earlier(bytes, from, back) == b'\'');
    let ends = to == bytes.len() || bytes.get(to) == Some(&b'\n');
    from < to && earlier(bytes, from, 1) == b'\n' && ends && !apostrophe && !blank(from) && !blank(to - 1)
}

/// What is known of a byte: with the one before it, or with the two before it, it is in one piece and a known token.
const PAIR: u8 = 1;
const TRIPLE: u8 = 2;

/// The most tokens so far, from left to right.
#[derive(Clone, Copy)]
struct Most {
    /// If a token ends here.
    tokens: i64,
    /// Four times the number of an [`Ending`].
    ending: u8,
}

impl Most {
    /// A piece begins here: nothing need be known any more of the token that ends.
    #[inline(always)]
    fn cut(&mut self) {
        self.ending = PIECE;
    }

    /// Goes past a byte that is [`PAIR`], [`TRIPLE`], both or neither.
    #[inline(always)]
    fn byte(&mut self, known: u8) {
        let next = ENDINGS.next[usize::from(self.ending | known)];
        self.tokens += i64::from(next & 3) - 1;
        self.ending = next & !3;
    }

    /// Goes past bytes in which at most `tokens` tokens begin, whatever surrounds them.
    #[inline(always)]
    fn block(&mut self, tokens: usize) {
        self.tokens += i64::from(ENDINGS.inside[usize::from(self.ending / 4)]) + tokens as i64;
        self.cut();
    }
}

/// The most tokens that the text up to a position can be, by where the last of them ends and its length in bytes: at
/// the position, one byte before it (longer ones together), or earlier. All of them less the most of those that end at
/// the position.
#[derive(Clone, Copy)]
struct Ending {
    one: i8,
    two: i8,
    more: i8,
    one_before: i8,
    more_before: i8,
    earlier: i8,
}

impl Ending {
    /// No token can end so. Far enough from the others that it stays so whatever is added.
    const NEVER: i8 = -100;

    /// Where a piece begins.
    const PIECE: Ending = {
        let never = Ending::NEVER;
        Ending { one: never, two: never, more: 0, one_before: never, more_before: never, earlier: never }
    };

    /// The same one byte on, and how many tokens more the most of those that end there are.
    const fn after(self, pair: bool, triple: bool) -> (Ending, i8) {
        let Ending { one, two, more, one_before, more_before, earlier } = self;
        // Fact 1.
        let after_one = if pair { Ending::NEVER } else { one };
        let after_two = if triple { Ending::NEVER } else { two };
        let two_after_one = if triple { Ending::NEVER } else { one_before };
        let here = Ending {
            one: most(&[more, after_one, after_two]) + 1,
            two: most(&[more_before, two_after_one]) + 1,
            more: earlier + 1,
            one_before: one,
            more_before: most(&[two, more]),
            earlier: most(&[one_before, more_before, earlier]),
        };
        let best = most(&[here.one, here.two, here.more]);
        (here.less(best), best)
    }

    /// How many tokens more there can be up to the next one if the last before it may end behind the position.
    const fn inside(self) -> i8 {
        most(&[0, self.one_before + 1, self.more_before + 1, self.earlier + 1])
    }

    const fn less(self, best: i8) -> Ending {
        let mut numbers = self.numbers();
        let mut at = 0;
        while at < numbers.len() {
            numbers[at] = if numbers[at] > Ending::NEVER / 2 { numbers[at] - best } else { Ending::NEVER };
            at += 1;
        }
        let [one, two, more, one_before, more_before, earlier] = numbers;
        Ending { one, two, more, one_before, more_before, earlier }
    }

    const fn is(self, other: Ending) -> bool {
        let (mine, its) = (self.numbers(), other.numbers());
        let mut at = 0;
        while at < mine.len() && mine[at] == its[at] {
            at += 1;
        }
        at == mine.len()
    }

    const fn numbers(self) -> [i8; 6] {
        [self.one, self.two, self.more, self.one_before, self.more_before, self.earlier]
    }
}

/// The greatest number.
const fn most(numbers: &[i8]) -> i8 {
    let mut most = numbers[0];
    let mut at = 1;
    while at < numbers.len() {
        if numbers[at] > most {
            most = numbers[at];
        }
        at += 1;
    }
    most
}

/// Every [`Ending`] that there can be, by number. Just 49, since the most tokens differ little within a few bytes.
struct Endings {
    /// By four times the number and what is known of the next byte: four times the next one's number, and one more than
    /// the tokens that are added.
    next: [u8; 4 * 64],
    inside: [u8; 64],
}

/// The number of [`Ending::PIECE`].
const PIECE: u8 = 0;

/// Found by going on from there with all that can be known of a byte, until nothing new comes.
static ENDINGS: Endings = endings();

const fn endings() -> Endings {
    let mut endings = Endings { next: [0; 4 * 64], inside: [0; 64] };
    let mut all = [Ending::PIECE; 64];
    let (mut count, mut at) = (1, 0);
    while at < count {
        let mut known = 0;
        while known < 4 {
            let (next, added) = all[at].after(known & PAIR as usize != 0, known & TRIPLE as usize != 0);
            let mut number = 0;
            while number < count && !next.is(all[number]) {
                number += 1;
            }
            if number == count {
                all[count] = next;
                count += 1;
            }
            endings.next[4 * at + known] = (4 * number) as u8 | (added + 1) as u8;
            known += 1;
        }
        endings.inside[at] = all[at].inside() as u8;
        at += 1;
    }
    endings
}

/// Runs of ASCII letters, each with the space before it, which begins its piece. A function of its own, since it has
/// few variables and goes past most of a text.
#[inline(never)]
fn words(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let mut at = from;
    while begins_word(bytes, at) {
        let first = at + 1;
        let word = Word::at(bytes, first);
        at = first + word.length;
        most.cut();
        if let Some(capital) = word.common() {
            most.tokens += 2 - i64::from(capital | is_lower(bytes[first]));
        } else {
            most.byte(0);
            let mut last = Letters { last: b' ', thirds: 0 };
            most.byte(last.next(bytes[first]));
            // Behind the space is no contraction, but to take one letter for it costs next to nothing.
            let contraction = usize::from(earlier(bytes, first, 2) == b'\'');
            last.rest(&bytes[first + 1..at], contraction, most);
        }
    }
    at
}

/// A run of ASCII letters behind anything else.
fn letters(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let before = earlier(bytes, from, 1);
    if cut(bytes, from, Kind::Letter) {
        most.cut();
    }
    let word = Word::at(bytes, from);
    let to = from + word.length;
    // A letter outside ASCII would be in the same piece. After an apostrophe cl100k cuts `'them` into `'t` and `hem`.
    let whole = before.is_ascii() && before != b'\'';
    if whole && let Some(capital) = word.common() {
        most.block(match before {
            b'\n' | b'0'..=b'9' => 2 - usize::from(capital),
            // A sign may share the word's piece.
            _ => word.length.min(3 - usize::from(capital)),
        });
        return to;
    }
    // Without a letter before it the apostrophe may end a run of signs.
    let pair = before == b'\'' && kind(earlier(bytes, from, 2)) == Kind::Letter && is_pair(before, bytes[from]);
    most.byte(u8::from(pair));
    // It has one letter or two.
    let contraction = match (before, earlier(bytes, from, 2)) {
        (b'\'', _) => 2,
        (_, b'\'') => 1,
        _ => 0,
    };
    Letters { last: bytes[from], thirds: 0 }.rest(&bytes[from + 1..to], contraction, most);
    to
}

/// The letters of a piece, or a space and letters, up to some position.
struct Letters {
    last: u8,
    /// What [`LOWER`] has of the last two.
    thirds: u32,
}

impl Letters {
    /// Goes past the rest of them, of which the first so many may end a contraction: both encoders cut behind it.
    #[inline(never)]
    fn rest(mut self, letters: &[u8], contraction: usize, most: &mut Most) {
        let contraction = contraction.min(letters.len());
        for &last in &letters[..contraction] {
            most.byte(0);
            self = Letters { last, thirds: 0 };
        }
        for &byte in &letters[contraction..] {
            most.byte(self.next(byte));
        }
    }

    /// What is known of the next one.
    #[inline(always)]
    fn next(&mut self, byte: u8) -> u8 {
        let last = core::mem::replace(&mut self.last, byte);
        if is_lower(last & byte) {
            let triple = (self.thirds >> (byte & 31)) as u8 & TRIPLE;
            self.thirds = LOWER[usize::from(last & 31)][usize::from(byte & 31)];
            triple | self.thirds as u8 & PAIR
        } else {
            self.thirds = 0;
            u8::from(is_pair(last, byte))
        }
    }
}

/// A run of ASCII digits: pieces of three from the left, each one token.
fn digits(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let to = run(bytes, from, |b| kind(b) == Kind::Digit);
    if cut(bytes, from, Kind::Digit) {
        most.cut();
    }
    // Other digits than ASCII ones share these pieces.
    let whole = earlier(bytes, from, 1).is_ascii() && bytes.get(to).is_none_or(u8::is_ascii);
    most.block(if whole { (to - from).div_ceil(3) } else { to - from });
    to
}

/// A run of blanks, without a last space that begins the next piece.
fn blanks(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let to = run(bytes, from, |b| kind(b) == Kind::Blank);
    let next = bytes.get(to).copied();
    let kept = begins_piece(bytes, to - 1);
    let to = to - usize::from(kept);
    if cut(bytes, from, Kind::Blank) {
        most.cut();
    }
    let mut at = from;
    while at < to {
        let blank = bytes[at];
        let end = run(&bytes[..to], at, |b| b == blank);
        let length = end - at;
        // The longest run that is a token in both vocabularies, as all shorter ones are. There are longer tokens, but
        // with gaps between them.
        let longest = match blank {
            b' ' => 79,
            b'\t' => 20,
            b'\n' => 10,
            _ => 1,
        };
        // A piece ends after line breaks, except that o200k lets a slash follow them.
        let closed = end == to && (kept || next.is_none_or(|b| blank == b'\n' && b.is_ascii() && b != b'/'));
        // Fact 3; and a last token that ends beyond the run, or the blank that begins the piece of what follows.
        let tokens = 2 * (length / (longest + 1)) + if closed { 1 } else { 2 };
        most.block(tokens.min(length));
        at = end;
    }
    to
}

/// Any other byte in ASCII.
fn sign(bytes: &[u8], at: usize, most: &mut Most) -> usize {
    let (before, byte) = (earlier(bytes, at, 1), bytes[at]);
    if cut(bytes, at, Kind::Sign) {
        most.cut();
    }
    most.byte(u8::from(is_pair(before, byte)));
    at + 1
}

/// A run of characters outside ASCII.
fn wide(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let mut last = 0;
    let mut at = from;
    while let Some(&byte) = bytes.get(at)
        && !byte.is_ascii()
    {
        most.byte(u8::from(is_wide_pair(last, byte)));
        last = byte;
        at += 1;
    }
    at
}

/// What a byte is to the encoders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Blank,
    /// All other ASCII: punctuation, symbols, controls.
    Sign,
    /// Part of a character outside ASCII.
    Wide,
}

/// By byte.
static KINDS: [Kind; 256] = kinds();

const fn kinds() -> [Kind; 256] {
    let mut kinds = [Kind::Sign; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Kind::Letter,
            b'0'..=b'9' => Kind::Digit,
            b'\t'..=b'\r' | b' ' => Kind::Blank,
            0x80.. => Kind::Wide,
            _ => Kind::Sign,
        };
        byte += 1;
    }
    kinds
}

#[inline(always)]
const fn kind(byte: u8) -> Kind {
    KINDS[byte as usize]
}

/// The byte `back` bytes before `at`; before the text a line break, which begins a piece as the text does.
#[inline(always)]
fn earlier(bytes: &[u8], at: usize, back: usize) -> u8 {
    at.checked_sub(back).map_or(b'\n', |at| bytes[at])
}

/// Whether a word with the space before it begins at `at`.
#[inline(always)]
fn begins_word(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b' ') && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
}

/// Whether the byte at `at` is a space with which the piece of what follows begins, or which is one by itself.
#[inline(always)]
fn begins_piece(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b' ' && bytes.get(at + 1).is_some_and(|&next| next.is_ascii() && kind(next) != Kind::Blank)
}

/// Whether a piece certainly begins at `at`, where no space [`begins_piece`] and `there` is the byte's kind.
#[inline(always)]
fn cut(bytes: &[u8], at: usize, there: Kind) -> bool {
    let (before, byte) = (earlier(bytes, at, 1), bytes[at]);
    let kind_before = kind(before);
    match there {
        Kind::Letter if kind_before == Kind::Blank => before == b'\n' || before == b'\r',
        // A single sign may be in the piece of the letters; a run of them, or one after a space, is its own.
        Kind::Letter if kind_before == Kind::Sign => in_one_piece(earlier(bytes, at, 2), before),
        Kind::Letter => kind_before == Kind::Digit,
        Kind::Digit => kind_before != Kind::Wide,
        // Line breaks after signs stay in their piece.
        Kind::Blank if kind_before == Kind::Sign => byte != b'\n' && byte != b'\r',
        Kind::Blank => kind_before == Kind::Letter || kind_before == Kind::Digit,
        // A contraction is in the piece of its word in o200k.
        Kind::Sign => kind_before == Kind::Letter && byte != b'\'' || kind_before == Kind::Digit,
        Kind::Wide => false,
    }
}

/// Whether two neighbouring bytes are certainly in one piece, wherever they stand: except that letters may be cut
/// behind a contraction, and that `'` with a letter may be none.
const fn in_one_piece(before: u8, byte: u8) -> bool {
    match (kind(before), kind(byte)) {
        // o200k cuts before a capital.
        (Kind::Letter, Kind::Letter) => !(before.is_ascii_lowercase() && byte.is_ascii_uppercase()),
        (Kind::Blank, Kind::Letter | Kind::Sign) => before == b' ',
        // In o200k a slash may end the piece of the line breaks before it.
        (Kind::Sign, Kind::Sign) => before != b'/',
        // `it's`: with the word or by itself, but whole.
        (Kind::Sign, Kind::Letter) => before == b'\'',
        // Of one character, since only such pairs are in the table.
        (Kind::Wide, Kind::Wide) => true,
        _ => false,
    }
}

/// Whether two neighbouring bytes, the second of them ASCII, are [`in_one_piece`] and a known token.
#[inline(always)]
const fn is_pair(before: u8, byte: u8) -> bool {
    let row = before.wrapping_sub(b' ') as usize;
    row < PAIRS.len() && PAIRS[row][(byte >> 6 & 1) as usize] >> (byte & 63) & 1 == 1
}

/// The same, if the second is not ASCII. They are of one character.
#[inline(always)]
fn is_wide_pair(before: u8, byte: u8) -> bool {
    let row = UTF8_PAIRS.get(usize::from(before.wrapping_sub(0xc2)));
    row.is_some_and(|row| row >> (byte & 63) & 1 == 1)
}

/// Where the run of bytes that are `like` the one at `from` ends.
fn run(bytes: &[u8], from: usize, like: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|&b| !like(b)).map_or(bytes.len(), |n| from + n)
}

/// [`COMMON_WORDS`], those of a [`Slot`] next to each other: of each its key, and in the lowest bit whether it has a
/// capital; lowest byte first. Half the text's size, and quicker to search. Eight bytes can be read from the last one
/// too.
static WORD_TABLE: [u8; WORD_TABLE_SIZE] = word_table();

const WORD_TABLE_SIZE: usize = SLOT_STARTS[SLOTS] as usize + 7;

/// Where in [`WORD_TABLE`] the words of each slot begin, and where the last of them end.
static SLOT_STARTS: [u16; SLOTS + 1] = slot_starts();

const SLOTS: usize = (LONGEST_WORD - SHORTEST_WORD + 1) << SLOT_BITS;

/// For each length there are two to the power of this, so that few words share one.
const SLOT_BITS: usize = 8;

/// Where to look for a word in [`WORD_TABLE`].
struct Slot {
    number: usize,
    /// How many bytes each word has there.
    size: u16,
    /// What no other word has there, and the bits that it may have: not the lowest.
    key: u64,
    mask: u64,
}

impl Slot {
    /// For a word of so many letters, and these as in [`Word`].
    ///
    /// The factor makes all letters count in the upper bits, by which the words are spread over the slots. It is odd,
    /// so no two words of a length have the same product.
    #[inline(always)]
    const fn new(length: usize, letters: u64) -> Slot {
        let product = letters.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = 5 * length - SLOT_BITS;
        let number = (length - SHORTEST_WORD) << SLOT_BITS | (product >> bits) as usize & ((1 << SLOT_BITS) - 1);
        let mask = (2 << bits) - 2;
        Slot { number, size: bits as u16 / 8 + 1, key: product << 1 & mask, mask }
    }
}

/// Whether a letter is in lower case. Of a space too, and of two such bytes if both are.
#[inline(always)]
fn is_lower(byte: u8) -> bool {
    byte & 0x20 != 0
}

/// The number of a lower-case letter, from 0 to 25; of anything else a greater one.
#[inline(always)]
const fn letter(byte: u8) -> u32 {
    (byte as u32).wrapping_sub(b'a' as u32)
}

/// The length and the slot of the word on the line of [`COMMON_WORDS`] that begins at `line`.
const fn listed(line: usize) -> (usize, Slot) {
    let (mut length, mut letters) = (1, (COMMON_WORDS[line] & 31) as u64);
    while COMMON_WORDS[line + length] != b'\n' {
        letters = letters << 5 | letter(COMMON_WORDS[line + length]) as u64;
        length += 1;
    }
    (length, Slot::new(length, letters))
}

const fn slot_starts() -> [u16; SLOTS + 1] {
    let mut starts = [0; SLOTS + 1];
    let mut line = 0;
    while line < COMMON_WORDS.len() {
        let (length, slot) = listed(line);
        starts[slot.number + 1] += slot.size;
        line += length + 1;
    }
    let mut number = 0;
    while number < SLOTS {
        starts[number + 1] += starts[number];
        number += 1;
    }
    starts
}

const fn word_table() -> [u8; WORD_TABLE_SIZE] {
    let mut table = [0; WORD_TABLE_SIZE];
    let mut ends = SLOT_STARTS;
    let mut line = 0;
    while line < COMMON_WORDS.len() {
        let (length, slot) = listed(line);
        let word = slot.key | COMMON_WORDS[line].is_ascii_uppercase() as u64;
        let mut byte = 0;
        while byte < slot.size {
            table[ends[slot.number] as usize] = (word >> (8 * byte)) as u8;
            ends[slot.number] += 1;
            byte += 1;
        }
        line += length + 1;
    }
    table
}

/// A run of ASCII letters.
struct Word {
    length: usize,
    /// Its letters, five bits each, if it is `plain` and short enough.
    letters: u64,
    /// Whether it is in lower case, but perhaps for its first letter, and no letter outside ASCII follows, which would
    /// be in the same piece.
    plain: bool,
}

impl Word {
    /// The run that begins with the letter at `from`.
    #[inline(always)]
    fn at(bytes: &[u8], from: usize) -> Word {
        let mut letters = u64::from(bytes[from] & 31);
        let mut to = from + 1;
        for &byte in &bytes[to..] {
            let letter = letter(byte);
            if letter >= 26 {
                break;
            }
            letters = letters << 5 | u64::from(letter);
            to += 1;
        }
        let next = bytes.get(to).map_or(Kind::Blank, |&byte| kind(byte));
        if next == Kind::Letter {
            to = run(bytes, to, |b| kind(b) == Kind::Letter);
        }
        Word { length: to - from, letters, plain: next != Kind::Letter && next != Kind::Wide }
    }

    /// Whether it is one of [`COMMON_WORDS`], and if so, whether it is there with a capital.
    #[inline(always)]
    fn common(&self) -> Option<bool> {
        let Word { length, letters, plain } = *self;
        if !plain || !(SHORTEST_WORD..=LONGEST_WORD).contains(&length) {
            return None;
        }
        let slot = Slot::new(length, letters);
        let end = SLOT_STARTS[slot.number + 1];
        let mut at = SLOT_STARTS[slot.number];
        while at < end {
            let eight = WORD_TABLE.get(usize::from(at)..usize::from(at) + 8)?;
            let word = u64::from_le_bytes(eight.try_into().ok()?) ^ slot.key;
            if word & slot.mask == 0 {
                return Some(word & 1 == 1);
            }
            at += slot.size;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        /// What was counted before does not change the count, whatever it is and whatever is around it.
        #[test]
        fn parts_that_were_counted_count_the_same(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(0..PIECES.len(), 0..9)), 0..6),
        ) {
            let mut text = String::new();
            let mut parts = Vec::new();
            for (counted, piece) in pieces {
                let piece: String = piece.iter().map(|number| PIECES[*number]).collect();
                if counted {
                    parts.push((text.len(), count(&piece, &[])));
                }
                text.push_str(&piece);
            }
            prop_assert_eq!(count(&text, &parts).tokens(), upper_bound(&text), "{:?}", text);
        }
    }

    const PIECES: [&str; 28] = [
        "\n",
        "\n",
        "\n",
        "\n",
        "\n\n",
        " ",
        "  ",
        "\t",
        "\r",
        "'",
        "it's",
        "'ll",
        "/",
        "//",
        "the",
        "The",
        " the",
        "zqx",
        "aXb",
        "1",
        "1234",
        "\u{b2}",
        "\u{e9}",
        "\u{4e2d}\u{6587}",
        "\u{1f44d}",
        "<<<",
        ".",
        "-",
    ];

    #[test]
    fn a_counted_part_is_not_counted_again() {
        let body = "The totals are computed in cents.";
        let whole = format!("<<<1\n{body}\n1>>>");
        // A wrong count shows that it was taken.
        let other = Counted { most: Most { tokens: 1_000, ending: PIECE }, bytes: body.len() };
        assert!(count(&whole, &[(5, other)]).tokens() > 1_000);
        for start in [4, 6, 200] {
            assert_eq!(count(&whole, &[(start, other)]).tokens(), upper_bound(&whole), "{start}");
        }
    }

    #[test]
    fn nothing_is_no_token() {
        assert_eq!(upper_bound(""), 0);
    }

    #[test]
    fn one_byte_is_one_token() {
        for byte in 0..=0x7f {
            assert_eq!(upper_bound(&char::from(byte).to_string()), 1, "{byte:#x}");
        }
    }

    #[test]
    fn only_blanks() {
        assert_eq!(upper_bound(" "), 1);
        assert_eq!(upper_bound(&" ".repeat(79)), 1);
        assert_eq!(upper_bound(&" ".repeat(80)), 3);
        assert_eq!(upper_bound("\n\n\n"), 1);
        assert_eq!(upper_bound(" \t \n"), 4);
        assert_eq!(upper_bound("\r\n\r\n"), 4);
        // Not blanks to us, but to the encoders.
        assert_eq!(upper_bound("\u{3000}\u{2003}"), 4);
    }

    #[test]
    fn a_common_word_is_one_token_with_its_space() {
        assert_eq!(upper_bound("the"), 1);
        assert_eq!(upper_bound(" the"), 1);
        assert_eq!(upper_bound("The other time\nthe"), 5);
        // The quote may be in the piece of the word.
        assert_eq!(upper_bound("\"the\""), 4);
        // These are not the word.
        assert!(upper_bound("THE") > 1);
        assert_eq!(upper_bound("the\u{e9}"), 3);
        assert_eq!(upper_bound("'the"), 1 + 3);
    }

    #[test]
    fn other_words_are_bounded_by_what_can_not_be_two_tokens() {
        // Pairs only: two tokens for three bytes.
        assert_eq!(upper_bound("BBB"), 2);
        assert_eq!(upper_bound("BBBBBB"), 4);
        // No such pair.
        assert_eq!(upper_bound("zqzq"), 4);
        // o200k cuts before a capital.
        assert_eq!(upper_bound("aXaXaX"), 6);
    }

    #[test]
    fn digits_come_in_threes() {
        assert_eq!(upper_bound("7"), 1);
        assert_eq!(upper_bound("123"), 1);
        assert_eq!(upper_bound("1234"), 2);
        assert_eq!(upper_bound("a1234567b"), 5);
        // A superscript is a digit to the encoders and shifts the threes.
        assert_eq!(upper_bound("\u{b2}123"), 2 + 3);
        assert_eq!(upper_bound("123\u{b2}"), 3 + 1);
    }

    #[test]
    fn odd_characters_count_no_more_than_their_bytes() {
        for text in [
            "\0\0\0",
            "\u{7f}\u{1b}[0m",
            "\u{301}",
            "\u{301}\u{302}\u{20dd}",
            "e\u{301}\u{301}e",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}",
            "\u{1f44d}\u{1f3fd}",
            "\u{1f1ef}\u{1f1f5}",
            "1\u{fe0f}\u{20e3}",
            "\u{202e}\u{feff}\u{2028}\u{2029}",
            "\u{10ffff}\u{e000}",
            "'\u{17f}'\u{212a}",
        ] {
            let bound = upper_bound(text) as usize;
            assert!(bound > 0 && bound <= text.len(), "{text:?}: {bound}");
        }
    }

    #[test]
    fn a_huge_text_is_counted_in_one_pass() {
        let text = "a ".repeat(2_000_000) + &" ".repeat(2_000_000) + &"B".repeat(3_000_000);
        let bound = upper_bound(&text);
        assert!(bound > 4_000_000 && bound < 4_100_000, "{bound}");
    }

    #[test]
    fn repeating_a_line_repeats_its_bound() {
        for line in [
            "The release is planned for 2 April.\n",
            "    let x = y[i + 1];\n",
            "\u{4e2d}\u{6587}\u{3002}\n",
            "---\n",
            "a\n",
        ] {
            let bound = upper_bound(line);
            for times in [2, 10, 1000] {
                assert!(upper_bound(&line.repeat(times)) >= (bound - 1) * times as u32, "{line:?}");
                assert!(upper_bound(&line.repeat(times)) <= (bound + 1) * times as u32, "{line:?}");
            }
        }
    }

    #[test]
    fn the_words_are_in_order_and_all_found() {
        let common_word = |word: &[u8]| Word::at(word, 0).common();
        let words: Vec<&str> = core::str::from_utf8(COMMON_WORDS).unwrap().lines().collect();
        assert!(words.is_sorted_by_key(|word| (word.len(), word.to_ascii_lowercase())));
        for word in words {
            let capital = word.starts_with(|c: char| c.is_ascii_uppercase());
            assert_eq!(common_word(word.as_bytes()), Some(capital), "{word}");
            assert_eq!(common_word(word.to_ascii_lowercase().as_bytes()), Some(capital), "{word}");
            assert_eq!(common_word(word.to_ascii_uppercase().as_bytes()), None, "{word}");
            assert_eq!(common_word(format!("{word}zq").as_bytes()), None, "{word}");
        }
        for word in ["a", "Q", "qqqq", "aaaaaaaaaaaa", "zzzzzzzzzzzz", "zzzzzzzzzzzzz"] {
            assert_eq!(common_word(word.as_bytes()), None, "{word}");
        }
    }
}
