// image.c -- links an ELF object into one position-independent image.
//
// Places code and constants one after the other and applies relocations between them.  Takes only
// relocations that do not depend on the image's address: relative ones, and pairs of page and
// offset in a page.
//
// Needs:      an object of LLVM's for x86-64, AArch64 or RISC-V that defines the symbol.
// Guarantees: EUNSUPPORTED for any other relocation and for any undefined symbol.  All offsets are
//             checked against the object.  The image runs at any address that is a multiple of
//             4096.
#include "targets/llvm/image.h"

#include <elf.h>

enum { NO_PLACE = -1 };

typedef struct Linker {
  Str obj;
  const Elf64_Ehdr *eh;
  const Elf64_Shdr *sh;
  int64_t *place;  // by section: offset in the image, or NO_PLACE
  uint8_t *image;
  int64_t size;
  Diag *d;
} Linker;

#define BAD(l, ...) fail((l)->d, TENON_EUNSUPPORTED, (Where){0}, __VA_ARGS__)

static bool inside(const Linker *l, uint64_t at, uint64_t n) {
  return at <= (uint64_t)l->obj.n && n <= (uint64_t)l->obj.n - at;
}

static tenon_status open_object(Linker *l) {
  if (l->obj.n < (int64_t)sizeof(Elf64_Ehdr) || memcmp(l->obj.p, ELFMAG, SELFMAG))
    return BAD(l, "the code generator gave no ELF object");
  l->eh = (const Elf64_Ehdr *)(const void *)l->obj.p;
  if (l->eh->e_shentsize != sizeof(Elf64_Shdr) ||
      !inside(l, l->eh->e_shoff, (uint64_t)l->eh->e_shnum * sizeof(Elf64_Shdr)))
    return BAD(l, "the object's section table lies outside it");
  l->sh = (const Elf64_Shdr *)(const void *)(l->obj.p + l->eh->e_shoff);
  for (int i = 0; i < l->eh->e_shnum; i++)
    if (l->sh[i].sh_type != SHT_NOBITS && !inside(l, l->sh[i].sh_offset, l->sh[i].sh_size))
      return BAD(l, "section %d lies outside the object", i);
  return TENON_OK;
}

static bool wanted(const Linker *l, const Elf64_Shdr *s, bool code) {
  const Elf64_Shdr *names = &l->sh[l->eh->e_shstrndx];
  const char *name = s->sh_name < names->sh_size ? l->obj.p + names->sh_offset + s->sh_name : "";
  if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size || s->sh_type == SHT_NOTE) return false;
  if (str_starts(str_of(name), ".eh_frame")) return false;
  return !(s->sh_flags & SHF_EXECINSTR) == !code;
}

static tenon_status lay_out(Linker *l, Arena *a) {
  int n = l->eh->e_shnum;
  l->place = arena_array(a, int64_t, MAX(n, 1));
  for (int i = 0; i < n; i++) l->place[i] = NO_PLACE;
  for (int code = 1; code >= 0; code--)
    for (int i = 0; i < n; i++) {
      const Elf64_Shdr *s = &l->sh[i];
      if (!wanted(l, s, code)) continue;
      if (s->sh_type != SHT_PROGBITS || (s->sh_flags & SHF_WRITE))
        return BAD(l, "the object has data that can be written");
      int64_t align = (int64_t)MAX(s->sh_addralign, 1);
      if (align > 4096)
        return BAD(l, "a section wants to be aligned to %lld bytes", (long long)align);
      l->place[i] = (l->size + align - 1) / align * align;
      if (!ck_add(l->place[i], (int64_t)s->sh_size, &l->size))
        return BAD(l, "the object is too large");
    }
  l->image = arena_alloc(a, l->size);
  for (int i = 0; i < n; i++)
    if (l->place[i] != NO_PLACE)
      memcpy(l->image + l->place[i], l->obj.p + l->sh[i].sh_offset, l->sh[i].sh_size);
  return TENON_OK;
}

// Where a symbol lies in the image.
static tenon_status symbol_at(const Linker *l, const Elf64_Shdr *table, uint64_t index,
                              int64_t *out) {
  const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(l->obj.p + table->sh_offset);
  if (index >= table->sh_size / sizeof *s) return BAD(l, "a relocation has no symbol");
  s += index;
  const Elf64_Shdr *names = &l->sh[table->sh_link];
  const char *name = s->st_name < names->sh_size ? l->obj.p + names->sh_offset + s->st_name : "?";
  if (s->st_shndx >= l->eh->e_shnum || l->place[s->st_shndx] == NO_PLACE)
    return BAD(l, "the code refers to '%.100s', which it does not define", name);
  *out = l->place[s->st_shndx] + (int64_t)s->st_value;
  return TENON_OK;
}

static uint32_t get32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
static void put32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }

static bool fits(int64_t v, int bits) {
  return v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1);
}

static bool apply_x86(uint8_t *p, uint32_t type, int64_t delta) {
  if ((type != R_X86_64_PC32 && type != R_X86_64_PLT32) || !fits(delta, 32)) return false;
  put32(p, (uint32_t)delta);
  return true;
}

static bool apply_arm(uint8_t *p, uint32_t type, int64_t to, int64_t at) {
  uint32_t w = get32(p);
  int64_t pages = (to >> 12) - (at >> 12), delta = to - at, low = to & 4095;
  int scale = 0;
  switch (type) {
  case R_AARCH64_PREL32:
    if (!fits(delta, 32)) return false;
    put32(p, (uint32_t)delta);
    return true;
  case R_AARCH64_CALL26:
  case R_AARCH64_JUMP26:
    if (!fits(delta, 28) || delta & 3) return false;
    put32(p, (w & 0xFC000000) | ((uint32_t)(delta >> 2) & 0x3FFFFFF));
    return true;
  case R_AARCH64_ADR_PREL_LO21:
    pages = delta;  // the same field, in bytes
  // fall through
  case R_AARCH64_ADR_PREL_PG_HI21:
    if (!fits(pages, 21)) return false;
    put32(p,
          (w & 0x9F00001F) | ((uint32_t)pages & 3) << 29 | ((uint32_t)(pages >> 2) & 0x7FFFF) << 5);
    return true;
  case R_AARCH64_LDST128_ABS_LO12_NC: scale++;  // fall through
  case R_AARCH64_LDST64_ABS_LO12_NC: scale++;   // fall through
  case R_AARCH64_LDST32_ABS_LO12_NC: scale++;   // fall through
  case R_AARCH64_LDST16_ABS_LO12_NC: scale++;   // fall through
  case R_AARCH64_LDST8_ABS_LO12_NC:
  case R_AARCH64_ADD_ABS_LO12_NC:
    if (low & ((1 << scale) - 1)) return false;
    put32(p, (w & ~(0xFFFu << 10)) | (uint32_t)(low >> scale) << 10);
    return true;
  }
  return false;
}

static bool apply_riscv(uint8_t *p, uint32_t type, int64_t delta) {
  uint32_t w = get32(p), hi = (uint32_t)(delta + 0x800) & 0xFFFFF000, lo = (uint32_t)delta & 0xFFF;
  if (!fits(delta, 31)) return false;
  switch (type) {
  case R_RISCV_PCREL_HI20: put32(p, (w & 0xFFF) | hi); return true;
  case R_RISCV_PCREL_LO12_I: put32(p, (w & 0xFFFFF) | lo << 20); return true;
  case R_RISCV_PCREL_LO12_S:
    put32(p, (w & 0x1FFF07F) | (lo >> 5) << 25 | (lo & 31) << 7);
    return true;
  case R_RISCV_CALL:
  case R_RISCV_CALL_PLT:
    put32(p, (w & 0xFFF) | hi);
    put32(p + 4, (get32(p + 4) & 0xFFFFF) | lo << 20);
    return true;
  case R_RISCV_RELAX: return true;
  }
  return false;
}

// RISC-V: the low half names the instruction that holds the high half, whose relocation has the
// target.
static tenon_status riscv_delta(const Linker *l, const Elf64_Shdr *rela, int64_t where,
                                int64_t *out) {
  const Elf64_Rela *r = (const Elf64_Rela *)(const void *)(l->obj.p + rela->sh_offset);
  for (uint64_t i = 0; i < rela->sh_size / sizeof *r; i++) {
    if (l->place[rela->sh_info] + (int64_t)r[i].r_offset != where ||
        ELF64_R_TYPE(r[i].r_info) != R_RISCV_PCREL_HI20)
      continue;
    int64_t to;
    TRY(symbol_at(l, &l->sh[rela->sh_link], ELF64_R_SYM(r[i].r_info), &to));
    *out = to + r[i].r_addend - where;
    return TENON_OK;
  }
  return BAD(l, "half of an address has no other half");
}

static tenon_status relocate(Linker *l, const Elf64_Shdr *rela, const Elf64_Rela *r) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
  int64_t base = l->place[rela->sh_info], to, at = base + (int64_t)r->r_offset;
  if (r->r_offset + 4 > l->sh[rela->sh_info].sh_size)
    return BAD(l, "a relocation lies outside its section");
  if (l->eh->e_machine == EM_RISCV && type == R_RISCV_RELAX) return TENON_OK;
  TRY(symbol_at(l, &l->sh[rela->sh_link], ELF64_R_SYM(r->r_info), &to));
  to += r->r_addend;
  bool ok = false;
  if (l->eh->e_machine == EM_X86_64) ok = apply_x86(l->image + at, type, to - at);
  if (l->eh->e_machine == EM_AARCH64) ok = apply_arm(l->image + at, type, to, at);
  if (l->eh->e_machine == EM_RISCV) {
    int64_t delta = to - at;
    if (type == R_RISCV_PCREL_LO12_I || type == R_RISCV_PCREL_LO12_S)
      TRY(riscv_delta(l, rela, to, &delta));
    ok = (type != R_RISCV_CALL && type != R_RISCV_CALL_PLT) ||
         r->r_offset + 8 <= l->sh[rela->sh_info].sh_size;
    ok = ok && apply_riscv(l->image + at, type, delta);
  }
  if (!ok)
    return BAD(l, "the code has a relocation of type %u, which depends on its address", type);
  return TENON_OK;
}

static tenon_status find_entry(const Linker *l, Str symbol, int64_t *out) {
  for (int i = 0; i < l->eh->e_shnum; i++) {
    const Elf64_Shdr *t = &l->sh[i];
    if (t->sh_type != SHT_SYMTAB || t->sh_link >= l->eh->e_shnum) continue;
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(l->obj.p + t->sh_offset);
    const Elf64_Shdr *names = &l->sh[t->sh_link];
    for (uint64_t k = 0; k < t->sh_size / sizeof *s; k++)
      if (s[k].st_name < names->sh_size &&
          str_is(symbol, l->obj.p + names->sh_offset + s[k].st_name) &&
          ELF64_ST_TYPE(s[k].st_info) == STT_FUNC && s[k].st_shndx != SHN_UNDEF)
        return symbol_at(l, t, k, out);
  }
  return BAD(l, "the object has no symbol '%.*s'", STR_ARG(symbol));
}

tenon_status image_link(Str object, Str symbol, Arena *a, Diag *d, Str *out, int64_t *out_entry) {
  Linker l = {.obj = object, .d = d};
  TRY(open_object(&l));
  TRY(lay_out(&l, a));
  for (int i = 0; i < l.eh->e_shnum; i++) {
    const Elf64_Shdr *s = &l.sh[i];
    if (s->sh_type != SHT_RELA || s->sh_info >= l.eh->e_shnum || l.place[s->sh_info] == NO_PLACE)
      continue;
    if (s->sh_link >= l.eh->e_shnum || l.sh[s->sh_link].sh_link >= l.eh->e_shnum)
      return BAD(&l, "a relocation table has no symbols");
    const Elf64_Rela *r = (const Elf64_Rela *)(const void *)(object.p + s->sh_offset);
    for (uint64_t k = 0; k < s->sh_size / sizeof *r; k++) TRY(relocate(&l, s, &r[k]));
  }
  TRY(find_entry(&l, symbol, out_entry));
  *out = (Str){(const char *)l.image, l.size};
  return TENON_OK;
}
