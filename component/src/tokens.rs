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

/// Words that after a space, in lower case, are one token in both vocabularies. Other spellings of them (with a
/// capital, without a space) are at most two, or one where the list has the word with a capital. Behind another ASCII
/// sign, which may share their piece, they add one token more at most; before a contraction (`'s`, `'ll`) they add no
/// more than [`upper_bound`] counts for both. `tests/tokens.rs` checks every word for this.
///
/// Of all such words these are the ones with the lowest ranks in cl100k, which are roughly the most frequent, as many
/// as make a table of 14,000 bytes. Left out are words whose rank in o200k is below 0.8 times that in cl100k (mostly
/// not English), and those whose sum of ranks is within 5% of that of a longer word which they begin (`introdu`). One a
/// line, sorted by length, then by letters.
const COMMON_WORDS: &[u8] = include_bytes!("common_words.txt");

/// The longest words that fit: five bits a letter and one for the capital in 64.
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

/// The same, halved: WebAssembly shifts 128 bits by a call.
static HALVED_PAIRS: [[u64; 2]; 95] = halved_pairs();

const fn halved_pairs() -> [[u64; 2]; 95] {
    let mut halved = [[0; 2]; 95];
    let mut row = 0;
    while row < halved.len() {
        halved[row] = [ASCII_PAIRS[row] as u64, (ASCII_PAIRS[row] >> 64) as u64];
        row += 1;
    }
    halved
}

/// Which three lower-case letters, the first of them perhaps a space, are one token in both vocabularies: bit
/// `(a * 26 + b) * 26 + c` with `a` 0 for a space and 1 to 26 for a letter, `b` and `c` 0 to 25; 64 bits a row.
#[rustfmt::skip]
static TRIPLES: [u64; 286] = [
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
    let bytes = text.as_bytes();
    let mut most = Most::new(0);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        at = match kind(byte) {
            Kind::Letter => letters(bytes, at, &mut most),
            Kind::Digit => digits(bytes, at, &mut most),
            Kind::Blank if !begins_piece(byte, next) => blanks(bytes, at, &mut most),
            Kind::Blank if next.is_some_and(|next| kind(next) == Kind::Letter) => letters(bytes, at, &mut most),
            Kind::Blank | Kind::Sign | Kind::Wide => {
                most.byte(bytes, at);
                at + 1
            }
        };
    }
    u32::try_from(most.here.max()).unwrap_or(u32::MAX)
}

/// The most tokens that the text up to a position can be if one ends there, by the length of that one in bytes.
#[derive(Clone, Copy)]
struct Ending {
    one: i64,
    two: i64,
    more: i64,
}

impl Ending {
    /// No token can end there. Far enough from the end of the range that it stays negative whatever is added.
    const NEVER: Ending = Ending { one: i64::MIN / 2, two: i64::MIN / 2, more: i64::MIN / 2 };

    fn max(self) -> i64 {
        self.one.max(self.two).max(self.more)
    }
}

/// The most tokens so far, from left to right.
struct Most {
    /// At this position, one byte before it, and the best of all before that.
    here: Ending,
    before: Ending,
    earlier: i64,
}

impl Most {
    /// A position where a token ends about which nothing need be known any more.
    fn new(tokens: i64) -> Most {
        let here = Ending { more: tokens, ..Ending::NEVER };
        Most { here, before: Ending::NEVER, earlier: Ending::NEVER.more }
    }

    /// Goes past the byte at `at`.
    fn byte(&mut self, bytes: &[u8], at: usize) {
        if cut(bytes, at) {
            *self = Most::new(self.here.max());
        }
        self.inner(bytes, at);
    }

    /// The same where it is known that no piece begins at `at`.
    #[inline(always)]
    fn inner(&mut self, bytes: &[u8], at: usize) {
        let unless = |known: bool, tokens: i64| if known { Ending::NEVER.more } else { tokens };
        let triple = is_triple(bytes, at);
        let Most { here, before, earlier } = *self;
        let one = here.more.max(unless(is_pair(bytes, at), here.one)).max(unless(triple, here.two));
        let two = before.more.max(before.two).max(unless(triple, before.one));
        self.here = Ending { one: one + 1, two: two + 1, more: earlier + 1 };
        self.before = here;
        self.earlier = earlier.max(before.max());
    }

    /// Goes past the bytes from `at` on in which at most `tokens` tokens begin, whatever surrounds them.
    fn block(&mut self, bytes: &[u8], at: usize, tokens: usize) {
        let mut so_far = self.here.max();
        if !cut(bytes, at) {
            // The last token before them may end inside them.
            so_far = so_far.max(self.before.max().max(self.earlier) + 1);
        }
        *self = Most::new(so_far + tokens as i64);
    }
}

/// A run of ASCII letters, with the space before it if `from` is one.
fn letters(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let first = from + usize::from(bytes[from] == b' ');
    let word = Word::at(bytes, first);
    let to = first + word.length;
    let before = first.checked_sub(1).map(|at| bytes[at]);
    // A letter outside ASCII would be in the same piece. After an apostrophe cl100k cuts `'them` into `'t` and `hem`.
    let whole = before.is_none_or(|b| b.is_ascii() && b != b'\'') && bytes.get(to).is_none_or(u8::is_ascii);
    if let Some(capital) = word.common().filter(|_| whole) {
        let tokens = match before {
            Some(b' ') if capital || bytes[first].is_ascii_lowercase() => 1,
            None | Some(b' ' | b'\n' | b'0'..=b'9') => 2 - usize::from(capital),
            // A sign may share the word's piece.
            Some(_) => 3 - usize::from(capital),
        };
        most.block(bytes, from, tokens.min(to - first));
    } else {
        most.byte(bytes, from);
        // Neither between letters nor between a space and a letter.
        for at in from + 1..to {
            most.inner(bytes, at);
        }
    }
    to
}

/// A run of ASCII digits: pieces of three from the left, each one token.
fn digits(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let to = run(bytes, from, |b| kind(b) == Kind::Digit);
    // Other digits than ASCII ones share these pieces.
    let whole = from.checked_sub(1).is_none_or(|at| bytes[at].is_ascii()) && bytes.get(to).is_none_or(u8::is_ascii);
    most.block(bytes, from, if whole { (to - from).div_ceil(3) } else { to - from });
    to
}

/// A run of blanks, without a last space that begins the next piece.
fn blanks(bytes: &[u8], from: usize, most: &mut Most) -> usize {
    let to = run(bytes, from, |b| kind(b) == Kind::Blank);
    let next = bytes.get(to).copied();
    let kept = begins_piece(bytes[to - 1], next);
    let to = to - usize::from(kept);
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
        most.block(bytes, at, tokens.min(length));
        at = end;
    }
    to
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
fn kind(byte: u8) -> Kind {
    KINDS[usize::from(byte)]
}

/// The byte `back` bytes before `at`; before the text a line break, which begins a piece as the text does.
#[inline(always)]
fn earlier(bytes: &[u8], at: usize, back: usize) -> u8 {
    at.checked_sub(back).map_or(b'\n', |at| bytes[at])
}

/// Whether `byte`, before `next`, is a space with which the piece of what follows begins, or which is one by itself.
fn begins_piece(byte: u8, next: Option<u8>) -> bool {
    byte == b' ' && next.is_some_and(|next| next.is_ascii() && kind(next) != Kind::Blank)
}

/// Whether a piece certainly begins at `at`.
fn cut(bytes: &[u8], at: usize) -> bool {
    let (before, byte) = (earlier(bytes, at, 1), bytes[at]);
    begins_piece(byte, bytes.get(at + 1).copied())
        || match (kind(before), kind(byte)) {
            // A contraction is in the piece of its word in o200k.
            (Kind::Letter, Kind::Sign) => byte != b'\'',
            (Kind::Letter, Kind::Digit | Kind::Blank) => true,
            (Kind::Digit, Kind::Letter | Kind::Sign | Kind::Blank) => true,
            (Kind::Blank, Kind::Letter) => before == b'\n' || before == b'\r',
            (Kind::Blank, Kind::Digit) => true,
            // A single sign may be in the piece of the letters; a run of them, or one after a space, is its own.
            (Kind::Sign, Kind::Letter) => in_one_piece(bytes, at - 1),
            (Kind::Sign, Kind::Digit) => true,
            // Line breaks after signs stay in their piece.
            (Kind::Sign, Kind::Blank) => byte != b'\n' && byte != b'\r',
            _ => false,
        }
}

/// Whether the byte at `at` is certainly in one piece with the byte before it.
#[inline(always)]
fn in_one_piece(bytes: &[u8], at: usize) -> bool {
    let (before, byte) = (earlier(bytes, at, 1), bytes[at]);
    match (kind(before), kind(byte)) {
        // o200k cuts before a capital, and both cut after a contraction, which has one letter or two.
        (Kind::Letter, Kind::Letter) => {
            !(before.is_ascii_lowercase() && byte.is_ascii_uppercase())
                && earlier(bytes, at, 2) != b'\''
                && earlier(bytes, at, 3) != b'\''
        }
        (Kind::Blank, Kind::Letter | Kind::Sign) => before == b' ',
        // In o200k a slash may end the piece of the line breaks before it.
        (Kind::Sign, Kind::Sign) => before != b'/',
        // `it's`: with the word or by itself, but whole. Elsewhere the apostrophe may end a run of signs.
        (Kind::Sign, Kind::Letter) => before == b'\'' && kind(earlier(bytes, at, 2)) == Kind::Letter,
        // Of one character, since only such pairs are in the table.
        (Kind::Wide, Kind::Wide) => true,
        _ => false,
    }
}

/// Whether the byte at `at` and the one before it are in one piece and a known token.
#[inline(always)]
fn is_pair(bytes: &[u8], at: usize) -> bool {
    let known = match (earlier(bytes, at, 1), bytes[at]) {
        (a @ b' '..=b'~', b) if b.is_ascii() => {
            HALVED_PAIRS[usize::from(a - b' ')][usize::from(b >> 6)] >> (b & 63) & 1 == 1
        }
        (a @ 0xc2..=0xf4, b @ 0x80..=0xbf) => UTF8_PAIRS[usize::from(a - 0xc2)] >> (b - 0x80) & 1 == 1,
        _ => false,
    };
    known && in_one_piece(bytes, at)
}

/// Whether the byte at `at` and the two before it are in one piece and a known token.
#[inline(always)]
fn is_triple(bytes: &[u8], at: usize) -> bool {
    let first = match earlier(bytes, at, 2) {
        b' ' => 0,
        letter @ b'a'..=b'z' => letter - b'a' + 1,
        _ => return false,
    };
    let (b'a'..=b'z', b'a'..=b'z') = (earlier(bytes, at, 1), bytes[at]) else {
        return false;
    };
    let bit = (usize::from(first) * 26 + usize::from(bytes[at - 1] - b'a')) * 26 + usize::from(bytes[at] - b'a');
    TRIPLES[bit / 64] >> (bit % 64) & 1 == 1 && in_one_piece(bytes, at) && in_one_piece(bytes, at - 1)
}

/// Where the run of bytes that are `like` the one at `from` ends.
fn run(bytes: &[u8], from: usize, like: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|&b| !like(b)).map_or(bytes.len(), |n| from + n)
}

/// [`COMMON_WORDS`] as numbers (see [`word_code`]), lowest byte first, in as many bytes each as words of that length need.
/// About 60% of the text's size, and quicker to compare. Eight bytes can be read from the last one too.
static WORD_TABLE: [u8; WORD_TABLE_SIZE] = word_table();

const WORD_TABLE_SIZE: usize = word_starts()[LONGEST_WORD + 1] + 8;

/// Where in [`WORD_TABLE`] the words of each length begin, by their first letter; and where the last of them end.
static WORD_STARTS: [[u16; 27]; LONGEST_WORD + 1] = starts_by_letter();

/// The number of a word, ascending in the order of the list: five bits a letter, and in the last bit `capital`.
const fn word_code(word: &[u8], capital: bool) -> u64 {
    let mut code = 0;
    let mut at = 0;
    while at < word.len() {
        code = code << 5 | (word[at] | 0x20) as u64 & 0x1f;
        at += 1;
    }
    code << 1 | capital as u64
}

const fn word_bytes(length: usize) -> usize {
    (5 * length + 1).div_ceil(8)
}

const fn word_starts() -> [usize; LONGEST_WORD + 2] {
    let mut starts = [0; LONGEST_WORD + 2];
    let (mut line, mut at) = (0, 0);
    while at < COMMON_WORDS.len() {
        if COMMON_WORDS[at] == b'\n' {
            starts[at - line + 1] += word_bytes(at - line);
            line = at + 1;
        }
        at += 1;
    }
    let mut length = 1;
    while length < starts.len() {
        starts[length] += starts[length - 1];
        length += 1;
    }
    starts
}

const fn starts_by_letter() -> [[u16; 27]; LONGEST_WORD + 1] {
    let starts = word_starts();
    let mut by_letter = [[0; 27]; LONGEST_WORD + 1];
    let mut length = 0;
    while length <= LONGEST_WORD {
        let mut letter = 0;
        while letter < 27 {
            by_letter[length][letter] = starts[length] as u16;
            letter += 1;
        }
        length += 1;
    }
    let (mut line, mut at) = (0, 0);
    while at < COMMON_WORDS.len() {
        if COMMON_WORDS[at] == b'\n' {
            // Those of later letters begin behind it.
            let mut letter = (COMMON_WORDS[line] | 0x20) - b'a' + 1;
            while letter < 27 {
                by_letter[at - line][letter as usize] += word_bytes(at - line) as u16;
                letter += 1;
            }
            line = at + 1;
        }
        at += 1;
    }
    by_letter
}

const fn word_table() -> [u8; WORD_TABLE_SIZE] {
    let mut table = [0; WORD_TABLE_SIZE];
    let (mut line, mut at, mut to) = (0, 0, 0);
    while at < COMMON_WORDS.len() {
        if COMMON_WORDS[at] == b'\n' {
            let (_, word) = COMMON_WORDS.split_at(line);
            let (word, _) = word.split_at(at - line);
            let code = word_code(word, word[0].is_ascii_uppercase());
            let mut shift = 0;
            while shift < 8 * word_bytes(word.len()) {
                table[to] = (code >> shift) as u8;
                shift += 8;
                to += 1;
            }
            line = at + 1;
        }
        at += 1;
    }
    table
}

/// A run of ASCII letters.
struct Word {
    length: usize,
    /// Its [`word_code`], if it is short enough to have one.
    code: u64,
    /// Whether it is in lower case, but perhaps for its first letter.
    plain: bool,
}

impl Word {
    /// The run that begins at `at`. One loop, since most runs are short.
    fn at(bytes: &[u8], at: usize) -> Word {
        let mut word = Word { length: 0, code: 0, plain: true };
        while let Some(&byte) = bytes.get(at + word.length)
            && kind(byte) == Kind::Letter
        {
            word.code = word.code << 5 | u64::from(byte & 0x1f) << 1;
            word.plain &= word.length == 0 || byte.is_ascii_lowercase();
            word.length += 1;
        }
        word
    }

    /// Whether it is one of [`COMMON_WORDS`], and if so, whether it is there with a capital.
    fn common(&self) -> Option<bool> {
        let Word { length, code, plain } = *self;
        if length == 0 || length > LONGEST_WORD || !plain {
            return None;
        }
        let letter = (code >> (5 * length - 4) & 0x1f) as usize - 1;
        let size = word_bytes(length);
        let [first, end] = [letter, letter + 1].map(|letter| usize::from(WORD_STARTS[length][letter]));
        let (mut low, mut high) = (0, (end - first) / size);
        while low < high {
            let middle = low.midpoint(high);
            let eight = WORD_TABLE[first + middle * size..].first_chunk()?;
            let here = u64::from_le_bytes(*eight) & u64::MAX >> (64 - 8 * size);
            match (here & !1).cmp(&code) {
                core::cmp::Ordering::Less => low = middle + 1,
                core::cmp::Ordering::Greater => high = middle,
                core::cmp::Ordering::Equal => return Some(here & 1 == 1),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for word in ["", "a", "Q", "qqqq", "aaaaaaaaaaaa", "zzzzzzzzzzzz", "zzzzzzzzzzzzz"] {
            assert_eq!(common_word(word.as_bytes()), None, "{word}");
        }
    }
}
