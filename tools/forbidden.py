#!/usr/bin/env python3
"""forbidden.py -- calls that src/ must not make, so that a test can make every call fail and no input can end the process.

Memory, files, threads and time go through the table of base/platform.h; text is written with bounds; an error is a
status, never the end of the process.  Comments and strings are not looked at.  Exit status 1 lists every hit.
"""
import os, re, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

# (what, pattern, why, paths under src/ that may)
MEMORY = "malloc calloc realloc reallocarray free posix_memalign aligned_alloc strdup strndup asprintf vasprintf getline getdelim"
FILES = "open openat fopen fdopen freopen creat mmap munmap rename unlink remove realpath mkstemp tmpfile"
THREADS = "pthread_create pthread_join thrd_create clock_gettime gettimeofday nanosleep"
UNBOUNDED = "strcpy strcat sprintf vsprintf gets strtok alloca atoi atol atof scanf sscanf fscanf"
ENDINGS = "abort exit _exit _Exit assert __builtin_trap raise"
OUTPUT = "printf fprintf vprintf vfprintf puts fputs putchar fputc perror fwrite"
PROCESS = "system popen fork execv execvp execl execlp posix_spawn posix_spawnp waitpid"


def words(list_of_names):
    return re.compile(r"(?<![\w.>])(" + "|".join(list_of_names.split()) + r")\s*\(")


RULES = [
    (words(MEMORY), "memory comes from arenas or mem_alloc", r"base/platform\w*\.c$"),
    (words(FILES), "files are opened by base/platform.c", r"base/platform\w*\.c$"),
    (words(THREADS), "threads and time come from base/platform.h", r"base/(platform|pool|thread)\w*\.c$"),
    (words(UNBOUNDED), "has no bound, or hides an error", r"base/platform\w*\.c$"),
    (words(ENDINGS), "a library never ends its caller's process", r"cli/|tune/cmd_tune\.c$|conform/|base/trap\.c$|targets/llvm/(orphan|sandbox)\.c$|base/platform_collect\.c$"),
    (words(OUTPUT), "a library writes to nobody's terminal", r"cli/|tune/cmd_tune\.c$|conform/|base/trap\.c$|targets/llvm/codegen_main\.c$|runtime/aot/main\.c$"),
    (words(PROCESS), "processes are started by base/process.h", r"cli/|conform/|base/platform_(process|collect)\.c$"),
    (re.compile(r"\b(?:MIN|MAX)\([^();]*(?:\([^()]*\)[^();]*)*(?:\+\+|--)"), "an argument of MIN and MAX is evaluated twice", r"$^"),
    (re.compile(r"\bgoto\s+\w+\s*;"), "no goto: memory is in arenas, return early", r"$^"),
    (re.compile(r"\b(rand|srand|random|setlocale|signal)\s*\("), "state of the whole process", r"cli/|conform/"),
]
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """Keeps the newlines, so that line numbers hold."""
    return "\n" * match[0].count("\n") or " "


def main():
    bad = files = 0
    for folder, _, names in (step for top in ("src", "tools/conform") for step in os.walk(os.path.join(ROOT, top))):
        for name in sorted(names):
            if not name.endswith((".c", ".h", ".def")): continue
            full = os.path.join(folder, name)
            path = os.path.relpath(full, ROOT)
            text = open(full, encoding="utf-8").read()
            files += 1
            for number, line in enumerate(text.split("\n"), 1):
                if UNFINISHED.search(line):
                    print(f"{path}:{number}: {UNFINISHED.search(line)[0]}: finish it or leave it out")
                    bad += 1
            for number, line in enumerate(NOT_CODE.sub(blank, text).split("\n"), 1):
                for pattern, why, allowed in RULES:
                    hit = pattern.search(line)
                    if hit and not re.search(allowed, path):
                        print(f"{path}:{number}: {hit[0].strip()}: {why}")
                        bad += 1
    print(f"forbidden: {files} files, {bad} calls that must not be there")
    return bad > 0


sys.exit(main())
