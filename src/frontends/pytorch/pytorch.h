// pytorch.h -- PyTorch's archives: the container, the restricted pickle machine, tensors.
//
// An archive is a zip file whose entries share one folder.  Three kinds: a saved object (a
// state_dict), TorchScript (with code/), torch.export (with models/).  Files from before the
// archives are a sequence of pickles, with the storages behind them.  A pickle is a program; here
// it is data: the machine knows the opcodes that build containers, and the names of a fixed list;
// it never calls anything.
#ifndef TENON_FRONTENDS_PYTORCH_PYTORCH_H
#define TENON_FRONTENDS_PYTORCH_PYTORCH_H

#include "base/zip.h"
#include "frontends/common/frontend.h"

// ---- values that a pickle builds ----
typedef enum {
  PK_NONE,
  PK_BOOL,
  PK_INT,
  PK_FLOAT,
  PK_STR,    // text or bytes
  PK_TUPLE,  // and lists, dictionaries, sets
  PK_LIST,
  PK_DICT,    // items: key, value, key, value, ...
  PK_GLOBAL,  // a name of the allow-list
  PK_STORAGE,
  PK_TENSOR,
  PK_OBJECT,  // of a class of the archive's own code (TorchScript): cls, attributes in `state`
} PickleKind;
typedef struct Pickled Pickled;
typedef VEC(Pickled *) PickledVec;
struct Pickled {
  PickleKind kind;
  int64_t i;  // PK_BOOL, PK_INT; PK_STORAGE: elements; PK_GLOBAL: a PickleName
  double f;
  Str s;             // PK_STR; PK_GLOBAL, PK_OBJECT: the class's name; PK_STORAGE: its key
  PickledVec items;  // PK_TUPLE, PK_LIST, PK_DICT
  Pickled *state;    // PK_OBJECT; PK_TENSOR: its storage
  DType dtype;       // PK_STORAGE, PK_TENSOR
  int rank;          // PK_TENSOR
  int64_t dims[MAX_RANK], strides[MAX_RANK], offset, n;
  const uint8_t *data;  // PK_STORAGE: its bytes, once found
  int64_t bytes;
  bool visited;
  Str path;  // from the root, once collected
};

typedef struct Pickle {
  Arena *arena;
  Diag *diag;
  Where at;
  bool code;  // names of the archive's own code (__torch__...) are objects
} Pickle;
// Runs one pickle from the front of `bytes`; *used is where it stopped.
MUST_USE tenon_status pickle_read(const Pickle *p, Str bytes, int64_t *used, Pickled **out);
const Pickled *pickle_get(const Pickled *dict_or_object, const char *key);  // NULL when absent

// ---- the archive ----
typedef struct TorchArchive {
  Imported *in;
  Diag *diag;
  Zip zip;
  Str folder;       // what every entry's name begins with, the slash included
  StrMap entries;   // name within the folder -> ZipEntry
  int64_t checked;  // bytes whose checksum was verified
} TorchArchive;
MUST_USE tenon_status torch_open(Imported *in, Str bytes, Diag *d, TorchArchive *out);
const ZipEntry *torch_find(const TorchArchive *t, const char *name);  // NULL when absent
// An entry's bytes: of the file where it is stored.  Large ones are not checksummed.
MUST_USE tenon_status torch_bytes(TorchArchive *t, const char *name, Str *out);
bool torch_is_little_endian(TorchArchive *t);

// ---- tensors ----
bool torch_dtype(Str name, DType *out);            // "FloatStorage", "float32", "torch.float32"
bool torch_scalar_type(int64_t code, DType *out);  // PyTorch's number of a dtype
int64_t torch_scalar_code(DType t);                // -1: PyTorch has none
// Checks a view against its storage and makes a weight of it.
MUST_USE tenon_status torch_weight(Imported *in, const Pickled *tensor, const char *name, Where at,
                                   Diag *d, Weight *out);
// Finds the bytes of every storage below `v`, in the archive's folder `data`.
MUST_USE tenon_status torch_storages(TorchArchive *t, const char *folder, Pickled *v);
// The pickle `data.pkl` of an archive, with its storages.
MUST_USE tenon_status torch_read_object(TorchArchive *t, bool code, Pickled **out);
// All tensors below an object, by their path, into in->weights.
MUST_USE tenon_status torch_collect(Imported *in, Pickled *v, Diag *d);

// ---- the kinds of archives ----
MUST_USE tenon_status torch_import_state(TorchArchive *t);
MUST_USE tenon_status torch_import_export(TorchArchive *t);      // torch.export
MUST_USE tenon_status torch_import_json(Imported *in, Diag *d);  // its program alone
MUST_USE tenon_status torch_import_script(TorchArchive *t);      // TorchScript

#endif
