# SPDX-License-Identifier: Apache-2.0
# Reads objdump -d --no-show-raw-insn and looks at the innermost loops with vector instructions in the
# functions named in `functions`: one that stores to the stack keeps accumulators in memory,
# where each addition waits for a store and a load. The jump table of a switch is not followed.

function number(hex,   i, n) {
  n = 0
  for (i = 1; i <= length(hex); i++)
    n = n * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1
  return n
}

# A loop is a jump back; it is innermost if no other one begins and ends inside it.
function finish(   i, j, k, innermost, vector, stored) {
  for (i = 0; i < jumps; i++) {
    innermost = 1
    for (j = 0; j < jumps; j++)
      if (j != i && top[j] >= top[i] && bottom[j] <= bottom[i] && top[j] - bottom[j] != top[i] - bottom[i])
        innermost = 0
    if (!innermost)
      continue
    vector = 0
    stored = ""
    for (k = 0; k < count; k++)
      if (address[k] >= top[i] && address[k] <= bottom[i]) {
        if (text[k] ~ /%[xyz]mm/)
          vector = 1
        # AT&T order: the destination is the last operand. A compare has none.
        if (text[k] ~ /,-?(0x[0-9a-f]+)?\(%r[sb]p[^)]*\)$/ && text[k] !~ /^v?(cmp|test|u?comis|ptest)/)
          if (text[k] ~ /%rsp[^)]*\)$/ || frame_pointer)
            stored = stored "\n    " text[k]
      }
    if (vector) {
      loops[name]++
      if (stored != "") {
        failed = 1
        printf "%s: the loop from %x to %x stores to the stack:%s\n", name, top[i], bottom[i], stored
      }
    }
  }
}

BEGIN { wanted = split(functions, function_name, " ") }

/^[0-9a-f]+ <.*>:$/ {
  if (name != "")
    finish()
  name = $2
  gsub(/[<>:]|[.].*/, "", name) # gcc's copies have a suffix
  if (index(" " functions " ", " " name " ") == 0)
    name = ""
  jumps = count = frame_pointer = 0
  next
}

name != "" && /^ *[0-9a-f]+:\t/ {
  split($0, field, /:?\t/)
  gsub(/ /, "", field[1])
  sub(/ *(#.*)?$/, "", field[2])
  address[count] = number(field[1])
  text[count] = field[2]
  if (text[count] ~ /^mov +%rsp,%rbp$/)
    frame_pointer = 1
  if (text[count] ~ /^j[a-z]+ +[0-9a-f]+ </) {
    split(text[count], part, / +/)
    if (number(part[2]) <= address[count]) {
      top[jumps] = number(part[2])
      bottom[jumps++] = address[count]
    }
  }
  count++
}

END {
  if (name != "")
    finish()
  for (i = 1; i <= wanted; i++) {
    printf "%s: %d loops\n", function_name[i], loops[function_name[i]]
    if (!loops[function_name[i]]) {
      failed = 1
      print function_name[i] ": no loop with vector instructions, or no such function"
    }
  }
  exit failed || !wanted
}
