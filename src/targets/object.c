// object.c -- writes an ELF object that holds a compiled model (--emit=obj).
//
// The object has data alone: the artifact's bytes, and a descriptor that points to them and to the
// evaluations of the model's host steps.  So one writer serves every machine, without assembler or
// linker.
//
// Needs:      a complete program; a machine that elf_machine knows, else EUNSUPPORTED.
// Guarantees: defines SYMBOL_model and no other symbol.  Undefined symbols are the evaluations that
//             the host steps use, each once.  The artifact is aligned to 64 bytes.
#include "targets/object.h"

#include "base/platform.h"
#include "runtime/artifact.h"

#include <elf.h>

enum {
  SEC_NULL,
  SEC_RODATA,
  SEC_DATA,
  SEC_RELA,
  SEC_SYMTAB,
  SEC_STRTAB,
  SEC_NAMES,
  SEC_STACK,
  SEC_COUNT
};
enum { ALIGN = 64, MODEL_BYTES = 48 };
static const char section_names[] =
    "\0.rodata\0.data\0.rela.data\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";
enum {
  NAME_RODATA = 1,
  NAME_DATA = 9,
  NAME_RELA = 15,
  NAME_SYMTAB = 26,
  NAME_STRTAB = 34,
  NAME_NAMES = 42,
  NAME_STACK = 52
};

typedef struct Object {
  Arena *arena;
  StrBuf data, rela, symtab, strtab;
  uint32_t abs64;  // the machine's relocation for an address
  int64_t nsyms;
} Object;

static void put_bytes(StrBuf *b, const void *p, int64_t n) { strbuf_put(b, (Str){p, n}); }

static int64_t add_symbol(Object *o, const char *name, int section, bool global, int type) {
  Elf64_Sym s = {.st_name = name ? (Elf64_Word)o->strtab.n : 0,
                 .st_info = ELF64_ST_INFO(global ? STB_GLOBAL : STB_LOCAL, type),
                 .st_shndx = (Elf64_Half)section,
                 .st_size = type == STT_OBJECT ? MODEL_BYTES : 0};
  if (name) put_bytes(&o->strtab, name, (int64_t)strlen(name) + 1);
  put_bytes(&o->symtab, &s, sizeof s);
  return o->nsyms++;
}

static void add_address(Object *o, int64_t at, int64_t symbol, int64_t addend) {
  Elf64_Rela r = {.r_offset = (Elf64_Addr)at,
                  .r_info = ELF64_R_INFO((Elf64_Xword)symbol, o->abs64),
                  .r_addend = addend};
  put_bytes(&o->rela, &r, sizeof r);
}

// The ops of all host steps, each once.
static void list_ops(const Program *p, Object *o) {
  StrMap seen;
  strmap_init(&seen, o->arena);
  for (int32_t i = 0; i < p->nfunctions; i++)
    for (int32_t k = 0; k < p->function[i]->nsteps; k++) {
      const ProgStep *s = &p->function[i]->step[k];
      if (s->kind != STEP_HOST || strmap_has(&seen, str_of(s->op))) continue;
      strmap_put(&seen, str_of(s->op), o);
      int64_t symbol =
          add_symbol(o, str_printf(o->arena, "tenon_eval_%s", s->op), SHN_UNDEF, true, STT_NOTYPE);
      add_address(o, o->data.n, symbol, 0);
      put_bytes(&o->data, &(int64_t){0}, 8);
    }
  put_bytes(&o->data, &(int64_t){0}, 8);
}

static bool elf_machine(const Machine *m, Elf64_Ehdr *h, uint32_t *abs64) {
  switch (m->arch) {
  case ARCH_X86_64:
    h->e_machine = EM_X86_64;
    *abs64 = R_X86_64_64;
    return true;
  case ARCH_AARCH64:
    h->e_machine = EM_AARCH64;
    *abs64 = R_AARCH64_ABS64;
    return true;
  case ARCH_RISCV64:
    h->e_machine = EM_RISCV;
    h->e_flags = EF_RISCV_RVC | EF_RISCV_FLOAT_ABI_DOUBLE;
    *abs64 = R_RISCV_64;
    return true;
  case ARCH_OTHER: break;
  }
  return false;
}

static int64_t round_up(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

// Sections one after another, in the order of their numbers.
static void lay_out(const Object *o, int64_t artifact, Elf64_Shdr *s) {
  const int64_t size[SEC_COUNT] = {
      [SEC_RODATA] = artifact,    [SEC_DATA] = o->data.n,     [SEC_RELA] = o->rela.n,
      [SEC_SYMTAB] = o->symtab.n, [SEC_STRTAB] = o->strtab.n, [SEC_NAMES] = sizeof section_names};
  int64_t at = round_up(sizeof(Elf64_Ehdr));
  s[SEC_RODATA] =
      (Elf64_Shdr){.sh_name = NAME_RODATA, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC};
  s[SEC_DATA] = (Elf64_Shdr){
      .sh_name = NAME_DATA, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE};
  s[SEC_RELA] = (Elf64_Shdr){.sh_name = NAME_RELA,
                             .sh_type = SHT_RELA,
                             .sh_flags = SHF_INFO_LINK,
                             .sh_link = SEC_SYMTAB,
                             .sh_info = SEC_DATA,
                             .sh_entsize = sizeof(Elf64_Rela)};
  s[SEC_SYMTAB] = (Elf64_Shdr){.sh_name = NAME_SYMTAB,
                               .sh_type = SHT_SYMTAB,
                               .sh_link = SEC_STRTAB,
                               .sh_info = 3,
                               .sh_entsize = sizeof(Elf64_Sym)};
  s[SEC_STRTAB] = (Elf64_Shdr){.sh_name = NAME_STRTAB, .sh_type = SHT_STRTAB};
  s[SEC_NAMES] = (Elf64_Shdr){.sh_name = NAME_NAMES, .sh_type = SHT_STRTAB};
  s[SEC_STACK] = (Elf64_Shdr){.sh_name = NAME_STACK, .sh_type = SHT_PROGBITS};
  for (int i = 1; i < SEC_COUNT; i++) {
    s[i].sh_addralign = i == SEC_STRTAB || i >= SEC_NAMES ? 1 : i == SEC_RODATA ? ALIGN : 8;
    s[i].sh_offset = (Elf64_Off)at;
    s[i].sh_size = (Elf64_Xword)size[i];
    at += round_up(size[i]);
  }
}

static void build(Object *o, const Program *p, const char *symbol, const char *weights,
                  int64_t artifact) {
  StrBuf *all[] = {&o->data, &o->rela, &o->symtab, &o->strtab};
  for (int i = 0; i < 4; i++) strbuf_init(all[i], o->arena);
  put_bytes(&o->strtab, "", 1);
  add_symbol(o, NULL, SHN_UNDEF, false, STT_NOTYPE);
  int64_t bytes = add_symbol(o, NULL, SEC_RODATA, false, STT_SECTION);
  int64_t data = add_symbol(o, NULL, SEC_DATA, false, STT_SECTION);
  add_symbol(o, str_printf(o->arena, "%s_model", symbol), SEC_DATA, true, STT_OBJECT);
  const int64_t model[MODEL_BYTES / 8] = {0, artifact};  // tenon_aot_model
  put_bytes(&o->data, model, sizeof model);
  add_address(o, 0, bytes, 0);
  add_address(o, 16, data, MODEL_BYTES);
  list_ops(p, o);
  if (!weights) return;
  add_address(o, 32, data, o->data.n);
  put_bytes(&o->data, weights, (int64_t)strlen(weights) + 1);
}

static tenon_status write_object(const Program *p, const Machine *m, const char *symbol,
                                 const char *weights, const char *path, Arena *a, Diag *d) {
  enum { NPARTS = ARTIFACT_PARTS + 2 * SEC_COUNT + 2 };
  Elf64_Ehdr h = {
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
      .e_type = ET_REL,
      .e_version = EV_CURRENT,
      .e_ehsize = sizeof h,
      .e_shentsize = sizeof(Elf64_Shdr),
      .e_shnum = SEC_COUNT,
      .e_shstrndx = SEC_NAMES};
  Elf64_Shdr s[SEC_COUNT] = {{0}};
  Object o = {.arena = a};
  static const char zeros[ALIGN];
  Str artifact[ARTIFACT_PARTS], part[NPARTS];
  int64_t total = 0;
  int n = 0;
  if (!elf_machine(m, &h, &o.abs64))
    return fail(d, TENON_EUNSUPPORTED, NOWHERE, "no object files are written for %s", m->triple);
  TRY(artifact_parts(&p, 1, weights != NULL, a, d, artifact));
  if (weights) TRY(file_write(weights, p->constants, p->constants_bytes, d));
  for (int i = 0; i < ARTIFACT_PARTS; i++) total += artifact[i].n;
  build(&o, p, symbol, weights, total);
  lay_out(&o, total, s);
  const Str content[SEC_COUNT] = {[SEC_DATA] = strbuf_str(&o.data),
                                  [SEC_RELA] = strbuf_str(&o.rela),
                                  [SEC_SYMTAB] = strbuf_str(&o.symtab),
                                  [SEC_STRTAB] = strbuf_str(&o.strtab),
                                  [SEC_NAMES] = {section_names, sizeof section_names}};
  h.e_shoff = s[SEC_STACK].sh_offset;
  part[n++] = (Str){(const char *)&h, sizeof h};
  part[n++] = (Str){zeros, round_up(sizeof h) - (int64_t)sizeof h};
  for (int i = 0; i < ARTIFACT_PARTS; i++) part[n++] = artifact[i];
  part[n++] = (Str){zeros, round_up(total) - total};
  for (int i = SEC_DATA; i < SEC_STACK; i++) {
    part[n++] = content[i];
    part[n++] = (Str){zeros, round_up(content[i].n) - content[i].n};
  }
  part[n++] = (Str){(const char *)s, sizeof s};
  part[n++] = str_of(FILE_MARK);  // behind the last section: no linker takes it along
  return file_write_parts(path, part, n, d);
}

tenon_status object_write(const Program *p, const Machine *m, const char *symbol,
                          const char *weights, const char *path, Diag *d) {
  Arena a;
  Trap t;
  arena_init(&a);
  trap_enter(&t, d);
  if (setjmp(t.env) == 0) t.status = write_object(p, m, symbol, weights, path, &a, d);
  trap_leave(&t);
  arena_deinit(&a);
  return t.status;
}
