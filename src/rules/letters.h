// letters.h -- the letters that rules are written in.  Included by rule tables alone.
#ifndef TENON_RULES_LETTERS_H
#define TENON_RULES_LETTERS_H

#include "ir/rule.h"

PAT_LETTERS;

#endif
