#!/usr/bin/env python3
"""words.py -- keeps retired words out of what people read, and prose short enough to read.

A reader who knows CUTLASS, Triton, oneDNN, TVM and ONNX Runtime must understand a name or a sentence at once.  So where
the field has a word, the tree uses it; docs/glossary.md defines the few words that are Tenon's own.

    tools/words.py [--program build/tenon] [FILE...]

It reads README, CONTRIBUTING, SECURITY, docs (the changelog aside), the comments of include/tenon/tenon.h and of all C
files and tables in src, tests and tools, the Python and shell files, and what `tenon --help` and `tenon COMMAND --help` print.  It checks

  * phrases: PHRASES in all of these, and in the messages and JSON keys (string literals) of MESSAGE_FOLDERS;
  * identifiers: RETIRED_IDENTIFIERS in src, tests, tools and docs, file names included;
  * names in kernels: RETIRED_KERNEL_NAMES in the text that the emitters of src/targets write;
  * length: no sentence over 40 words in README, help, and the first two sections of docs/architecture.md; no paragraph
    over 120 words in any Markdown file.  A list item is a paragraph; tables and code are none.

A common English word is retired as an identifier alone: `few` and `beside` are fine in a sentence.  Prints
FILE:LINE: 'phrase': the field says ... for each hit.  Exit status 1 when there is one.
"""
import os, re, subprocess, sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SENTENCE_WORDS, PARAGRAPH_WORDS = 40, 120

# (what is retired, what the field says).  A space stands for any white space, a line break included.
PHRASES = [
    (r"units? (?:for|of) matri(?:x|ces)|matrix units?|units? that (?:can )?multipl(?:y|ies)|(?:the|such|no) units multiply", "tensor cores, MMA"),
    (r"(?:targets?|devices?|chips?) (?:has|have|with|without) units\b", "tensor cores, MMA"),
    (r"groups? of threads|groups of work items|thread groups?", "thread block, workgroup"),
    (r"open (?:sizes?|batch(?:es)?|lengths?|dimensions?|dims?|shapes?|rows|mask|keys)", "dynamic shape, dynamic batch, dynamic length"),
    (r"(?:sizes?|dimensions?|lengths?|batch|number of \w+) (?:that )?(?:is|are|stays?|remains?) open\b", "dynamic"),
    (r"(?:leaves?|left|leaving) (?:it|them|a size|sizes|the size|dimensions) open\b", "dynamic"),
    (r"what (?:follows|comes after|stands behind) (?:the|its|their|a|each) (?:sums?|products?)|behind (?:the|its|their) sums", "epilogue"),
    (r"what is read (?:beside|along)|(?:read|reads) along with|read beside", "epilogue operand"),
    (r"copy engines?|the engine (?:takes|fetches|walks)", "TMA"),
    (r"(?:products?|multipl\w+|matri(?:x|ces)|networks?|models?|contractions?|convolutions?|attention|operands?|activations?) (?:of|in|by|by way of) bytes", "int8 GEMM, int8"),
    (r"\bl(?:ie|ies|ay|ain|ying) (?:along|across|as|beside|row by row|channels|in pieces|in words|in rows)\b", "is contiguous in, is K-major, is row-major, has layout"),
    (r"\b(?:as|where|how) (?:it|they|he|these|those|lhs|rhs|\w+s) lies?\b", "in place, in its own layout"),
    (r"\bchips? (?:from|of|before|since|up to|below) \d|\bthose (?:of|from|before) \d+\.\d\b|\b(?:from|before) (?:7\.5|8\.[069]|9\.0|10\.0) (?:on|to)\b|\bof (?:8\.0|9\.0)\b", "sm_80+, sm_90 (Ampere, Hopper)"),
    (r"\bby turns\b|\bin turns\b|\btakes? turns\b|\bturn about\b", "ping-pong, interleaved, alternate"),
    (r"\bside by side\b", "contiguous, adjacent, concurrent"),
    (r"\bfloats? of (?:8|eight) bits\b|\bfloat8 numbers\b", "fp8"),
    (r"\b(?:weights?|numbers?|integers?) (?:of|in) (?:a )?few bits\b|\bfew bits\b", "int4, weight-only quantization"),
    (r"\bin fewer products\b|\bwith fewer products\b", "Winograd"),
    (r"\bdear(?:er|est|ly)?\b", "expensive"),
    (r"\bt(?:ake|akes|aken|ook|aking) along\b", "includes, also removes, also fetches"),
    (r"\bwarpgroup products?\b", "wgmma"),
    (r"\b(?:blocks?|reads?|copies|tiles?|loads?) under way\b", "in flight, stages"),
    (r"\bclusters? along\b|\balong a long (?:sum|axis)\b", "cluster split-K"),
    (r"\b(?:sums?|keys|contractions?|products?) in (?:\d+ |several |two |more )?parts\b|\bparts of (?:a|the) sums?\b", "split-K, split-KV"),
    (r"\b(?:a|the|whose|any) past\b(?= (?:of|and|too|is|are|in|that)\b|[.,;:)])", "KV cache, past key/value"),
    (r"\bhand(?:s|ed|ing)? on\b", "present key/value; returns, passes"),
    (r"\b(?:stored|read|written|packed|kept|seen|made|multiplied) turned\b|\bturned (?:there|round|matri\w+|weights|operands?|copy)\b|\bturns its operands\b", "transposed, converted layout"),
    (r"\bt(?:ake|akes|aken|ook|aking) (?:\w+ ){0,3}apart\b", "decomposed, decomposes"),
    (r"\bmade[- ]up\b(?! of)|\bmake(?:s)? up (?:the )?inputs\b", "random inputs"),
    (r"\bthreads? (?:that (?:go|run|are) )?in step\b", "warp"),
    (r"\bshaken\b", "perturbed"),
    (r"\b(?:without|with|no|has|needs?|grants?|granted|behind|under) (?:a |the |its |their |every )?licen[cs]es?\b(?! (?:of|file))|\blicen[cs]es? (?:to|that|are|is|the rule)\b|\blicen[cs]ed\b", "fast-math flag"),
    (r"\blent\b|\blends?\b", "user-provided device buffer"),
    (r"\bnumbers? that (?:are|is) none\b", "NaN"),
    (r"\bthree (?:products )?of tf32\b", "3xTF32"),
    (r"\brunning maxim(?:um|a)\b", "online softmax"),
    (r"\bwaves, products\b|\bwide words\b|\b(?:signed|unsigned) words\b", "packed dot product"),
    (r"\bgoes?(?: the)? same way in pairs\b", "bf16 dot product"),
    (r"\bbits? behind the point\b", "mantissa bits"),
]

# Each of these must be found, so that a slip in a pattern cannot switch a row off.
SAMPLES = [
    "units for matrices", "groups of threads", "open sizes", "an open batch", "open length", "a size that is open", "what follows the sums",
    "what is read beside them", "the copy engine", "products of bytes", "a network in bytes", "lies along K", "lie across", "as they lie", "read where it lies",
    "chips from 8.0 on", "chips of 9.0", "chips before 9.0", "those of 9.0", "by turns", "take turns", "side\n   by side", "floats of 8 bits",
    "weights of a few bits", "in fewer products", "dear", "dearer", "takes along", "taken along", "warpgroup products", "blocks under way",
    "clusters along a long sum", "sums in parts", "a past of any length", "hands on", "stored turned", "taken apart", "takes one apart", "made-up inputs",
    "are made up from a seed", "threads that go in step", "shaken", "without a licence", "memory that is lent", "numbers that are none",
    "three products of tf32", "a running maximum", "signed words", "10 bits behind the point",
]

# Whole identifiers, as regular expressions, and their new names.  \1 refers to a group.
RETIRED_IDENTIFIERS = [
    # passes and rules
    (r"multiplies_(?:bytes|words|float8)", "is_int8, is_packed_dot, is_fp8"), (r"opt_licen[cs]es", "opt_fast_math_flags"), (r"FC_LAZY", "FC_INDEX_MAP"),
    (r"rules_recognise_bits", "rules_recognise_int4"), (r"rules_recognise_float8", "rules_recognise_fp8"), (r"rules_past", "rules_kv_cache"),
    (r"rules_picks", "rules_slices"), (r"rules_moves", "rules_movement"), (r"rules_blocks", "rules_windows"), (r"rules_depth", "rules_space_to_depth"),
    (r"layout_turn", "layout_convert"), (r"layout_is_turned", "layout_is_converted"), (r"fuse_is_turned", "fuse_is_transposed"), (r"make_turned", "make_transposed"),
    (r"join_beside|can_lie_beside", "fuse_horizontally"), (r"under_turn", "under_transpose"), (r"taken_apart", "decompose"),
    # targets and loops: epilogue, prefetch, resident tiles, consumers, attention, thread blocks
    (r"CAside", "EpilogueTma"), (r"cs_aside_(\w+)", r"cs_epilogue_tma_\1"), (r"emit_aside", "emit_epilogue_tma"),
    (r"cs_ahead(\w*)", r"cs_prefetch\1"), (r"emit_ahead", "emit_prefetch"), (r"runs_ahead", "prefetched_runs"),
    (r"cs_fetch_(\w+)", r"cs_producer_\1"), (r"cs_tile_ways", "cs_tile_split_k"), (r"takes_turns", "is_pingpong"),
    (r"cs_tile_stay_bytes", "cs_tile_resident_bytes"), (r"loop_tile_stay", "loop_tile_resident"), (r"TILE_STAY_BYTES", "TILE_RESIDENT_BYTES"),
    (r"cs_tile_crew", "cs_tile_consumers"), (r"crew", "consumers"), (r"cs_(?:attention|mma)_beside", "resident_blocks"),
    (r"cs_attention_fade", "cs_attention_rescale"), (r"cs_attention_most", "cs_attention_row_max"),
    (r"cs_attention_totals", "cs_attention_row_sum"), (r"(cs|emit)_attention_parts(\w*)", r"\1_attention_split_kv\2"),
    (r"find_swaps", "find_shuffles"), (r"loop_swapped", "loop_shuffled"), (r"lanes_apart", "lanes_diverge"),
    (r"group_items", "block_items"), (r"group_scratch", "block_scratch"), (r"Ours", "CpuKernels"),
    # lowering, plan, runtime, program
    (r"elem_never", "type_is_empty"), (r"elem_float8", "elem_fp8"), (r"Follow", "EpilogueWalk"),
    (r"follow_(?:begin|value|reads|to|store|moves_blocks)", "epilogue_*"), (r"heavy", "expensive"), (r"contract_heavy", "contract_is_expensive"),
    (r"contract_words", "contract_packed_dot"), (r"contract_sums_bytes", "sums_int8"), (r"ContractBytes", "ContractInt8"), (r"settle_bytes", "prepare_int8"),
    (r"lower_group", "lower_kernel"), (r"group_(?:inside|close|threads|rounds)", "thread_*"), (r"group_sums_(\w+)", r"simt_gemm_\1"), (r"Group(?:Sums|Rows|Attention)", "SimtGemm, BlockReduce, SimtAttention"),
    (r"plan_(?:order_)?beside", "plan_is_concurrent"), (r"nbeside", "nconcurrent"), (r"PLAN_BESIDE_MAX", "PLAN_CONCURRENT_MAX"),
    (r"DeviceLent", "UserBuffer"), (r"device_lent(\w*)", r"device_user_buffers\1"), (r"MEMORY_LENT", "MEMORY_USER"), (r"Telling", "ExplainReport"), (r"handful", "small_bucket"),
    (r"target_advise", "target_traits"), (r"TILES_(?:NONE|WARP|WARPGROUP)", "MmaScope"), (r"multiplies_bytes", "is_int8_gemm"),
    # dynamic shapes, thread blocks, warps, pipelines
    (r"open_(?:sizes|batch|batches|length)(\w*)", r"dynamic_shapes\1"), (r"with_groups", "with_thread_blocks"), (r"max_group", "max_block_threads"), (r"in_step", "warp"),
    (r"ways", "stages, warpgroups, directions"), (r"at_once", "stages, unroll"), (r"loop_at_once", "loop_stages"), (r"by_turns", "pingpong"), (r"stay", "resident"),
    # epilogue, attention, layout; common English words count as identifiers only
    (r"turn_(?:weight|any)|turn(?:8|16|32|64)", "transpose_*"), (r"flip_tile", "rebias_tile"), (r"finish_sums", "emit_epilogue"), (r"contract_finish", "contract_epilogue"), (r"follow_(\w+)", r"epilogue_\1"), (r"aside", "epilogue_tma"), (r"ahead", "prefetch, lookahead"),
    (r"totals", "row_sum"), (r"fade", "rescale"), (r"turned(?:_\w+)?|is_turned", "transposed, swapped, reversed"), (r"lies", "has_layout"),
    (r"(?:\w+_)?beside", "concurrent, external_data"), (r"side_by_side", "concurrent, contiguous"), (r"apart", "asynchronous, dilation, decomposed"), (r"few", "latency_bound, skinny"),
    (r"dear(?:_\w+)?", "expensive"), (r"rows_most", "rows_max"), (r"n_bits_fit", "int4_fits"), (r"sums_bytes", "sums_int8"),
    (r"lent", "user_buffer"), (r"made_up", "random_inputs"), (r"shaken", "perturbed"), (r"licen[cs]es?", "fast_flags"),
]

# Names in the text of CUDA kernels.
RETIRED_KERNEL_NAMES = [
    (r"tn_given?", "tn_dsmem_store"), (r"tn_take(?:_box)?", "tn_dsmem_load, tn_tma_store"), (r"tn_fade", "tn_rescale"), (r"tn_most_of", "tn_row_max"),
]


# Folders of src/ whose string literals people read: messages, and in targets/ the text of kernels.
MESSAGE_FOLDERS = ["analyse", "api", "base", "cli", "compile", "cost", "eval", "exporters", "frontends", "ir", "loop", "lower", "ops", "passes", "plan", "rules", "runtime", "targets", "view"]

# ---- what is read ----

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f: return f.read()


def tree(folder, endings):
    for at, subs, names in os.walk(os.path.join(ROOT, folder)):
        subs[:] = sorted(s for s in subs if not s.startswith((".", "build", "__pycache__")))
        for name in sorted(names):
            if name.endswith(endings): yield os.path.relpath(os.path.join(at, name), ROOT)


def comments(text):
    """The comments of C text at their places; all else is blank, so that line numbers hold."""
    out, end = [], 0
    for m in COMMENT.finditer(text):
        out.append("\n" * text.count("\n", end, m.start()) or " ")
        said = m[0]
        if said[:2] == "//": said = "  " + said[2:]
        elif said[:2] == "/*": said = re.sub(r"(?m)^[ \t]*\*(?!/)", " ", "  " + said[2:-2])
        else: said = '""' + "\n" * said.count("\n")
        out.append(said)
        end = m.end()
    return "".join(out)


def literals(text):
    """The string literals of C text at their places, adjacent ones joined."""
    out, end = [], 0
    for m in COMMENT.finditer(text):
        out.append("\n" * (text.count("\n", end, m.start()) + (0 if m[0][0] == '"' else m[0].count("\n"))))
        out.append(m[0][1:-1] if m[0][0] == '"' else " ")
        if m[0][0] == '"' and not re.match(r'\s*"', text[m.end():]): out.append(" | ")
        end = m.end()
    return "".join(out)


def documents():
    for path in ("README.md", "CONTRIBUTING.md", "SECURITY.md"): yield path, read(path)
    for path in tree("docs", ".md"): yield path, read(path)


def prose():
    """(name, text) of all that PHRASES are looked for in, but help."""
    yield from documents()
    yield "include/tenon/tenon.h", comments(read("include/tenon/tenon.h"))
    for folder in ("src", "tests", "tools"):
        for path in tree(folder, (".c", ".h", ".def")): yield path, comments(read(path))
    for folder in MESSAGE_FOLDERS:
        for path in tree(f"src/{folder}", ".c"): yield path, literals(read(path))
    for folder in ("python", "bench", "tests", "tools"):
        for path in tree(folder, (".py", ".sh")):
            if path != "tools/words.py": yield path, read(path)


def helps(program):
    """(name, text) of the program's help and that of every command."""
    def said(*args):
        env = dict(os.environ, NO_COLOR="1", COLUMNS="80")
        return subprocess.run([program, *args], capture_output=True, text=True, check=True, env=env).stdout
    overview = said("--help")
    yield "tenon --help", overview
    listed = re.search(r"(?ms)^commands:\n(.*?)^\S", overview)[1]
    for command in re.findall(r"(?m)^  (\w+)", listed): yield f"tenon {command} --help", said(command, "--help")


# ---- checks ----

def spaced(pattern):
    """A space stands for any white space, or for the _ of a JSON key."""
    return re.compile(pattern.replace(" ", r"(?:\s+|_)"), re.I)


def retired_phrases(name, text):
    for pattern, instead in [(spaced(p), i) for p, i in PHRASES]:
        for hit in pattern.finditer(text):
            yield name, text.count("\n", 0, hit.start()) + 1, f"'{' '.join(hit[0].split())}': the field says {instead}"


def silent_rows():
    """A sentence for each sample that no row finds."""
    for sample in SAMPLES:
        if not any(retired_phrases("", sample)): yield f"words: no pattern finds '{sample}'"


def retired_identifiers():
    table = [(re.compile(p), i) for p, i in RETIRED_IDENTIFIERS]
    kernel = [(re.compile(r"\b(?:" + p + r")\b"), i) for p, i in RETIRED_KERNEL_NAMES]
    known = {}

    def instead(word):
        if word not in known:
            known[word] = next((m.expand(i) if "\\" in i else i for p, i in table for m in [p.fullmatch(word)] if m), None)
        return known[word]

    for path in [*tree("src", (".c", ".h", ".def")), *tree("tests", (".c", ".h")), *tree("tools", (".c", ".h")), "include/tenon/tenon.h"]:
        stem = os.path.basename(path).split(".")[0]
        if instead(stem): yield path, 1, f"file '{stem}': the field says {instead(stem)}"
        for number, line in enumerate(COMMENT.sub(lambda m: "\n" * m[0].count("\n"), read(path)).split("\n"), 1):
            for word in dict.fromkeys(IDENTIFIER.findall(line)):
                if instead(word): yield path, number, f"identifier '{word}': the field says {instead(word)}"
    for path in tree("src/targets", ".c"):
        for number, line in enumerate(read(path).split("\n"), 1):
            for pattern, new in kernel:
                if pattern.search(line): yield path, number, f"kernel name '{pattern.search(line)[0]}': the field says {new}"
    for path, text in documents():
        for number, line in enumerate(text.split("\n"), 1):
            for code in re.findall(r"`([^`]+)`", line):
                for word in dict.fromkeys(re.findall(r"[A-Za-z]\w*_\w+|^[a-z]\w*$", code)):
                    if instead(word): yield path, number, f"identifier '{word}': the field says {instead(word)}"


def paragraphs(text):
    """(line, text) of each paragraph of Markdown: list items apart, without headings, tables and code."""
    code, lines, start = False, [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        fence = line.lstrip().startswith("```")
        if fence: code = not code
        plain = not (code or fence or line.startswith(("#", "    ", "<")) or line.lstrip().startswith("|"))
        item = re.match(r"\s*(?:[*+-]|\d+\.)\s+", line)
        if lines and (not plain or not line.strip() or item):
            yield start, " ".join(lines)
            lines = []
        if plain and line.strip():
            if not lines: start = number
            lines.append(line[item.end():] if item else line.strip())


def help_paragraphs(text):
    """(line, text) of each entry and paragraph of help."""
    lines, start = [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        entry = re.match(r" {2,6}\S", line) or not line.strip()
        if lines and entry:
            yield start, " ".join(lines)
            lines = []
        if line.strip():
            if not lines: start = number
            lines.append(re.sub(r"^(?:-\w, )?--[\w-]+(?: \S+)?  +", "", line.strip()))


def words_of(text):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    return [w for w in text.split() if re.search(r"\w", w)]


def sentences(text):
    return re.split(r"(?<=[.!?])[*_)\"]*\s+", text)


def long_sentences(name, found):
    for line, text in found:
        for sentence in sentences(text):
            n = len(words_of(sentence))
            if n > SENTENCE_WORDS: yield name, line, f"a sentence of {n} words, at most {SENTENCE_WORDS}: {' '.join(sentence.split()[:8])} ..."


def long_paragraphs(name, found):
    for line, text in found:
        n = len(words_of(text))
        if n > PARAGRAPH_WORDS: yield name, line, f"a paragraph of {n} words, at most {PARAGRAPH_WORDS}: {' '.join(text.split()[:8])} ..."


def first_sections(text, n):
    """The text up to the (n + 1)-th second-level heading."""
    starts = [m.start() for m in re.finditer(r"(?m)^## ", text)]
    return text[:starts[n]] if len(starts) > n else text


def findings(program):
    for name, text in prose(): yield from retired_phrases(name, text)
    yield from retired_identifiers()
    for name, text in documents():
        yield from long_paragraphs(name, paragraphs(text))
        if name == "README.md": yield from long_sentences(name, paragraphs(text))
        if name == "docs/architecture.md": yield from long_sentences(name, paragraphs(first_sections(text, 2)))
    for name, text in helps(program):
        yield from retired_phrases(name, text)
        yield from long_sentences(name, help_paragraphs(text))


def main():
    args = sys.argv[1:]
    program = os.path.join(ROOT, "build", "tenon")
    if "--program" in args:
        at = args.index("--program")
        program = args[at + 1]
        del args[at:at + 2]
    only = [a for a in args if not a.startswith("--")]
    if not os.path.exists(program):
        print(f"words: {program} is not there: its help cannot be read")
        return 2
    bad = 0
    for sentence in silent_rows():
        print(sentence)
        bad += 1
    for name, line, what in findings(program):
        if only and not any(name.startswith(o) for o in only): continue
        print(f"{name}:{line}: {what}")
        bad += 1
    print(f"words: {bad} to mend" if bad else "words: none retired, none too long")
    return bad > 0


sys.exit(main())
