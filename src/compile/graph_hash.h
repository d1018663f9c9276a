// graph_hash.h -- a hash of all that compiling reads of a graph.
//
// Two graphs of one hash are compiled to the same program: the hash is SHA-256 over a form from
// which the graph could be built again, so nobody can make two different ones that share it.
#ifndef TENON_COMPILE_GRAPH_HASH_H
#define TENON_COMPILE_GRAPH_HASH_H

#include "base/sha256.h"
#include "ir/ir.h"

// False: its constants have more than `most_bytes`, one cannot be read, or the graph has operators
// of the user's own.  Needs a Trap.
bool graph_hash(Graph *g, int64_t most_bytes, Arena *a, uint8_t out[SHA256_BYTES]);

#endif
