# source_id.cmake -- writes a C file with a hash of the library's sources: programs in the cache were made by these passes
# and templates, or by others.  The same sources give the same hash in every build, so that the program, the library and
# the Python package share their programs.  `list` is a file with one path a line, relative to `root`.
file(STRINGS ${list} files)
set(all "")
foreach(file ${files})
  file(SHA256 ${root}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 id "${all}")
string(SUBSTRING ${id} 0 32 id)
set(text "// Made by cmake/source_id.cmake.\nextern const char program_sources[];\n")
string(APPEND text "const char program_sources[] = \"tenon ${id}\";\n")
file(CONFIGURE OUTPUT ${out} CONTENT "${text}")
