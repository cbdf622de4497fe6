package outname

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/ranks"
)

// A Base is the path of a recording's files without suffix.
type Base struct {
	Path  string
	Named bool // a person named the path, not the folder alone
	// WithPID returns the path when the PID of the program is known; nil if the path has no PID.
	WithPID func(pid int) string
}

// Of returns the base of what a person gave as output. If that is "" or a folder, the files have the
// default name, and are in the current folder or in that one.
func Of(output string, v Values) (Base, error) {
	if output == "" {
		return Base{Path: v.defaultName()}, nil
	}
	path, err := expand(output, v)
	if err != nil {
		return Base{}, err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Base{Path: filepath.Join(path, v.defaultName())}, nil
	}
	b := Base{Path: withoutSuffix(path), Named: true}
	if v.PID == 0 && strings.Contains(b.Path, laterPID) {
		if strings.Contains(filepath.Dir(b.Path), laterPID) {
			return Base{}, fmt.Errorf("-o %s: %%p can stand in the name of the file only, not in its folder: the program has no PID yet", output)
		}
		later := b.Path
		b.Path = strings.ReplaceAll(later, laterPID, "%p")
		b.WithPID = func(pid int) string { return strings.ReplaceAll(later, laterPID, strconv.Itoa(pid)) }
	}
	return b, nil
}

func withoutSuffix(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, LogSuffix), TraceSuffix)
}

// defaultName is the name of what is recorded, with its rank if it has one.
func (v *Values) defaultName() string {
	if v.Rank.Known && v.Rank.Of != 1 && !v.Launches {
		return fmt.Sprintf("%s-rank%d", v.Name, v.Rank.Number)
	}
	return v.Name
}

// Program is the name of what a command line runs: "train" for "python3 train.py".
func Program(program string, args []string) string {
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

// scriptOf is the name of the script among the arguments of an interpreter, or of the Python module
// that it runs; "" without one.
func scriptOf(args []string) string {
	for i, arg := range args {
		switch {
		case arg == "-c" || arg == "-e":
			return "" // a program in the command line
		case ranks.IsScript(arg):
			name := filepath.Base(arg)
			return strings.TrimSuffix(name, filepath.Ext(name))
		case arg == "-m" && i+1 < len(args) && !slices.ContainsFunc(args[i+2:], ranks.IsScript):
			module := args[i+1]
			return module[strings.LastIndexByte(module, '.')+1:]
		}
	}
	return ""
}
