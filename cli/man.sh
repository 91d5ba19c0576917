#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# man.sh SUMAC: prints the manual page, in scdoc's form. Operations and options are what the command says.
set -eu
sumac=$1
cat <<END
sumac(1)

# NAME

sumac - exact, reproducible reductions of the numbers in files

# SYNOPSIS

*sumac* _OP_ [options] _FILE_ [_FILE2_]++
*sumac* *stats* [options] _FILE_++
*sumac* *info*++
*sumac* *demo* [*--data* _DIR_] [*--elements* _N_]++
*sumac* *help*, *sumac* _OP_ *--help*, *sumac* *--version*

# DESCRIPTION

Reduces the numbers in a file: their sum, mean, norm, least element and so on. The result is that of exact
arithmetic, rounded once, so it has the same bits for every number of threads, every machine and every
order. It goes alone to the standard output, or one sentence that begins with "sumac: " to the standard
error; never both, and never half a result.

_FILE_ is a .npy file, a .npz archive, a .safetensors file, raw bytes (*--dtype* and *--shape*) or text;
*-* is the standard input, as is no _FILE_ where that is no terminal. Of a file of many arrays each is
reduced, a line each with its name, unless *--tensor* or *--member* names one.

# OPERATIONS

\`\`\`
$("$sumac" --help | sed -n '/^operations:/,/^$/p' | sed '1d;$d')
\`\`\`

# OPTIONS

\`\`\`
$("$sumac" sum --help | sed 1d)
\`\`\`

# EXIT STATUS

. done
. usage: 2
. input that cannot be read or is malformed: 3
. a combination that does not exist: 4
. a device or its driver failed: 5
. the result does not fit its type: 6
. the output cannot be written: 7
. anything else: 1

# ENVIRONMENT

*SUMAC_CPU_FEATURES*
	The instruction sets that may be used, such as "base,avx2".

*SUMAC_DISABLE_CUDA*
	Leaves the CUDA driver unopened, unless empty or "0".

# EXAMPLES

\`\`\`
printf '0.1 0.2 0.3\\n' | sumac sum --decimal -
sumac mean --column price --skip-nan orders.csv
sumac norm2 --tensor lm_head.weight model.safetensors
\`\`\`

# SEE ALSO

docs/cli.md and include/sumac/sumac.h in the source tree.
END
