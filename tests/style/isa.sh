#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# isa.sh OBJECT... : the objects of the library. Code for a newer processor may only be in isa_avx*.o:
# anything global there, an inline function of a header above all, might be the copy that the linker
# keeps for everyone, and would end the program on an older processor.
set -eu

# A VEX or EVEX instruction: a name with v, or one of BMI or of the mask registers.
avx='^(v[a-z]|(andn|bextr|bls(i|r|msk)|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx)[lq]?$'
avx="$avx|k(mov|add|and|or|xor|xnor|not|test|ortest|shift|unpck))"
instructions() { objdump -d --no-show-raw-insn "$1" | awk -F '\t' 'NF > 1 { sub(/ .*/, "", $2); print $2 }'; }

failed=0
seen=0
for object; do
  [ -r "$object" ]
  name=$(basename "$object" .c.o)
  globals=$(nm --defined-only --extern-only "$object" | awk '{ print $3 }')
  case $name in
  isa_*)
    if [ "$globals" != "sumac_loops_${name#isa_}" ]; then
      echo "$object exports more than its table of loops: $globals"
      failed=1
    fi
    ;;
  esac
  case $name in
  isa_avx*)
    seen=$((seen + 1))
    if ! instructions "$object" | grep -Eq "$avx"; then
      echo "$object has no instruction of its set"
      failed=1
    fi
    ;;
  *)
    if instructions "$object" | grep -Em 3 "$avx"; then
      echo "$object has instructions that the baseline lacks"
      failed=1
    fi
    ;;
  esac
done
if [ "$seen" -eq 0 ]; then
  echo "no object of an instruction set was given"
  failed=1
fi
exit $failed
