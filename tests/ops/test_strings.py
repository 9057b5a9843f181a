"""Strings: known hashes, what fails and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.ops import fingerprints
from tests.kit.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_published_vector_of_siphash():
    key = bytes(range(16))
    halves = tuple(int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    assert fingerprints.siphash((halves[0], halves[1]), bytes(range(15))) == 0xA129CA6149BE45E5


# What tf.strings.to_hash_bucket* of TensorFlow 2.21 gave for 2 ** 62 buckets, for strings of many lengths.
LENGTHS = [0, 1, 3, 4, 7, 8, 15, 16, 17, 32, 33, 64, 65]
FAST, PLAIN, STRONG = (
    [
        1936946117179621455, 1693950485815063666, 2390455988044349787, 3811216297591504399,
        2791685920142820519, 3353873851460577805, 113627848950134875, 4506129890909998255,
        2127632104220955444, 1734124413019658865, 602873835421405492, 3685477328340014604, 215147994857326080,
    ],
    [
        105434511174508091, 2734033960519991108, 3509928957472251400, 436897066735859710, 2565110615151570411,
        1939790030583972339, 263663308713572520, 3752424688753196088, 2833915951209289379, 67983798785740989,
        4208899199061460325, 748650085292598651, 1286138512015312833,
    ],
    [
        374827593736581460, 1169170515239578991, 2904286553616069897, 737661622284977655, 651335699095265262,
        2241451403441169948, 3774847617309126339, 2879615366550264810, 2274246582157931101,
        2015648788245602071, 3406014780801766414, 244392000161592122, 1679496336281196826,
    ],
)


@pytest.mark.parametrize("i, size", list(enumerate(LENGTHS)))
def test_hashes_of_every_length(i, size):
    text = bytes((size * 7 + j) % 256 for j in range(size))
    assert fingerprints.fingerprint64(text) % 2**62 == FAST[i]
    assert fingerprints.hash64(text) % 2**62 == PLAIN[i]
    assert fingerprints.siphash((11, -5), text) % 2**62 == STRONG[i]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: tf.string_to_number(["1.5", "abc"]), "could not correctly convert string: abc"),
        (lambda: tf.string_to_number(["1.5"], tf.int32), "could not correctly convert string: 1.5"),
        (lambda: tf.string_to_number(["99999999999"], tf.int32), "could not correctly convert string: 99999999999"),
        (lambda: tf.string_to_number(["1_0"]), "could not correctly convert string: 1_0"),
        (lambda: tf.string_to_number([""]), "could not correctly convert string"),
        (lambda: tf.substr("hello", 6, 1), "pos 6 out of range for string b'hello' at index 0"),
        (lambda: tf.substr(["a", "hello"], [0, -6], [1, 1]), "pos -6 out of range for string b'hello' at index 1"),
        (lambda: tf.decode_raw(["ab", "cde"], tf.uint8), "all be the same size, but element 1 has size 3 != 2"),
        (lambda: tf.decode_raw(["abc"], tf.int16), "has length 3 that is not a multiple of 2"),
        (lambda: tf.as_string([1, 2], precision=2), "precision not supported for datatype int32"),
        (lambda: tf.as_string([1.0], scientific=True, shortest=True), "Cannot select both scientific and shortest"),
        (lambda: tf.as_string([1.0], fill="ab"), "Fill string must be one or fewer characters"),
        (lambda: tf.regex_replace("a", "(", "b"), r"Invalid pattern: \(, error"),
        (lambda: tf.string_to_hash_bucket_strong(["a"], 5, [1]), "Key must have 2 elements"),
        (lambda: tf.decode_base64(["!!"]), "Invalid character found in base64"),
        (lambda: tf.strings.unicode_transcode([b"\xff"], "UTF-8", "UTF-8", errors="strict"), "Invalid formatting"),
    ],
)
def test_what_fails_in_the_step(make, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        evaluate(make())


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: tf.string_to_hash_bucket_fast(["a"], 0), "num_buckets"),
        (lambda: tf.reduce_join(["a"], 3), "Invalid reduction dimension 3 for input with 1 dimension"),
        (lambda: tf.string_join([["a"], ["b", "c"]]), "not compatible"),
        (lambda: tf.substr("a", 0, 1, unit="WORD"), "not in the list of allowed values"),
        (lambda: tf.fingerprint(["a"], method="md5"), "Unsupported fingerprint method: md5"),
        (lambda: tf.strings.split(["a b"], result_type="RaggedTensor"), "no ragged tensors here"),
    ],
)
def test_what_fails_while_building(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_text_of_any_type():
    assert evaluate(tf.as_string(tf.constant([1.5], tf.float16))).tolist() == [b"1.500000"]
    assert evaluate(tf.as_string(tf.constant([1.5], tf.bfloat16))).tolist() == [b"1.500000"]
    assert evaluate(tf.as_string(["kept"])).tolist() == [b"kept"]
    assert evaluate(tf.as_string(np.array([-np.inf]), width=6, fill="0")).tolist() == [b"  -inf"]
    words = evaluate(tf.strings.unicode_transcode([b"a\xff\x01"], "UTF-8", "UTF-8", replacement_char=63,
                                                  replace_control_characters=True))  # fmt: skip
    assert words.tolist() == [b"a??"]


ALONE = {
    "StridedSlice": lambda x: x[1],
    "GatherV2": lambda x: tf.gather(x, 1),
    "GatherNd": lambda x: tf.gather_nd(x, [1]),
    "Unpack": lambda x: tf.unstack(x)[1],
    "Select": lambda x: tf.where(True, x[1], x[0]),
    "StringJoin": lambda x: tf.string_join([x[1], ""]),
    "TensorArray": lambda x: tf.TensorArray(tf.string, 2).unstack(x).read(1),
    "map_fn": lambda x: tf.map_fn(lambda text: tf.substr(text, 0, 2), x)[1],
}


@pytest.mark.parametrize("pick", ALONE.values(), ids=ALONE)
def test_a_text_picked_out_of_a_vector_goes_through_a_pipeline(pick):
    texts = tf.placeholder(tf.string, [2])
    queue = tf.FIFOQueue(2, [tf.string], shapes=[[]])
    put, taken = queue.enqueue(pick(texts)), queue.dequeue()
    fetches = [tf.decode_raw(pick(texts), tf.uint8), tf.string_to_number(taken, tf.int32), tf.expand_dims(taken, 0)]
    with tf.Session() as session:
        session.run(put, {texts: [b"7", b"12"]})
        code, number, text = session.run([fetches[0], fetches[1], fetches[2]], {texts: [b"7", b"12"]})
    assert code.tolist() == [49, 50] and number == 12 and text.tolist() == [b"12"]
