// other.h -- files and folders that no reader takes: what they are, by their content, and what to
// do about it.
#ifndef TENON_FRONTENDS_COMMON_OTHER_H
#define TENON_FRONTENDS_COMMON_OTHER_H

#include "base/base.h"

// Refuses bytes that a reader recognised by no sign of its own: another format, a file that ends
// early, text, noise.  TENON_OK: they may be an ONNX model, which has no magic number.
MUST_USE tenon_status other_refuse(Str bytes, Diag *d);
// A zip archive that ends before its directory, whatever reader it is for.
MUST_USE tenon_status other_refuse_cut_zip(Str bytes, Diag *d);
// Refuses a zip archive without anything that a reader knows, by the names in it.
MUST_USE tenon_status other_refuse_zip(Str bytes, Diag *d);
// Refuses a folder, and names the model in it; TENON_OK: the path is no folder.
MUST_USE tenon_status other_refuse_folder(const char *path, Diag *d);

#endif
