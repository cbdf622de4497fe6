package record

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Suffixes of the files that a recording makes.
const (
	LogSuffix   = ".cudatrace"
	TraceSuffix = ".pftrace"
)

// BaseName is the path of a recording's files without suffix. If output is "" or a folder, the files
// have the name of the program, or of the script that it runs, and are in the current folder or in
// that one. named says that output is the path itself.
func BaseName(output, program string, args []string) (base string, named bool) {
	if output == "" {
		return defaultName(program, args), false
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		return filepath.Join(output, defaultName(program, args)), false
	}
	output = strings.TrimSuffix(output, LogSuffix)
	return strings.TrimSuffix(output, TraceSuffix), true
}

// defaultName is the name of what a command line runs: "train" for "python3 train.py".
func defaultName(program string, args []string) string {
	name := filepath.Base(program)
	if runsScripts.MatchString(name) {
		if script := scriptOf(args); script != "" {
			return script
		}
	}
	return name
}

// runsScripts matches the names of interpreters, and of programs that start others.
var runsScripts = regexp.MustCompile(`^(python|pypy|ipython|perl|ruby|node|julia|lua|Rscript|(ba|da|z|k)?sh|` +
	`torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|env|uv|conda|nice|timeout|numactl|taskset|stdbuf|setsid|nohup)[0-9.]*t?$`)

// scriptEnd matches the suffixes of scripts.
var scriptEnd = regexp.MustCompile(`\.(py|sh|bash|pl|rb|js|mjs|jl|lua|R|r)$`)

// scriptOf is the name of the script among the arguments of an interpreter, or of the Python module
// that it runs; "" without one.
func scriptOf(args []string) string {
	for i, arg := range args {
		switch {
		case arg == "-c" || arg == "-e":
			return "" // a program in the command line
		case scriptEnd.MatchString(arg) && !strings.HasPrefix(arg, "-"):
			name := filepath.Base(arg)
			return strings.TrimSuffix(name, filepath.Ext(name))
		case arg == "-m" && i+1 < len(args) && !slices.ContainsFunc(args[i+2:], scriptEnd.MatchString):
			module := args[i+1]
			return module[strings.LastIndexByte(module, '.')+1:]
		}
	}
	return ""
}
