package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// nameValues are the facts that patterns stand for.
type nameValues struct {
	host      string
	pid       int // 0: known when the program has been started
	rank      ranks.Rank
	job       string
	name      string // of the program or its script
	launches  bool   // the program starts the processes of all ranks
	time      time.Time
	variables map[string]string // the environment
}

// namePatterns lists the patterns, for people.
const namePatterns = "%h (host), %p (PID), %r (rank), %j (job), %n (name of the program), %t (time), %q{VARIABLE} " +
	"and %% (a percent sign)"

// laterPID stands for a PID that is not known yet. No path has a zero byte.
const laterPID = "\x00"

// expandPatterns replaces the patterns of a path.
func expandPatterns(path string, v nameValues) (string, error) {
	var b strings.Builder
	for rest := path; ; {
		plain, pattern, found := strings.Cut(rest, "%")
		b.WriteString(plain)
		if !found {
			return b.String(), nil
		}
		value, n, err := v.value(pattern)
		if err != nil {
			return "", fmt.Errorf("-o %s: %w", path, err)
		}
		b.WriteString(value)
		rest = pattern[n:]
	}
}

// value is the value of the pattern at the beginning of a text, which stands behind a percent sign. n is the
// length of the pattern.
func (v *nameValues) value(text string) (value string, n int, err error) {
	if text == "" {
		return "", 0, errors.New("a name ends in %; write %% for a percent sign")
	}
	switch text[0] {
	case '%':
		value = "%"
	case 'h':
		value, err = needed(v.host, "%h has no value: the host has no name")
	case 'p':
		value = v.pidText()
	case 'r':
		if !v.rank.Known {
			return "", 0, errors.New("%r has no value: no launcher has set a rank (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, " +
				"SLURM_PROCID of an srun, ...)")
		}
		value = strconv.FormatUint(uint64(v.rank.Number), 10)
	case 'j':
		value, err = needed(v.job, "%j has no value: no scheduler has set a job ID (SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, "+
			"FLUX_JOB_ID)")
	case 'n':
		value = inName(v.name)
	case 't':
		value = v.time.Format("20060102-150405")
	case 'q':
		return v.variable(text)
	default:
		return "", 0, fmt.Errorf("%%%s is no pattern; patterns are %s", strings.ToValidUTF8(string([]rune(text)[:1]), "?"),
			namePatterns)
	}
	return value, 1, err
}

func (v *nameValues) pidText() string {
	if v.pid == 0 {
		return laterPID
	}
	return strconv.Itoa(v.pid)
}

// variable is the value of an environment variable: q{NAME}. It may be several folders.
func (v *nameValues) variable(text string) (value string, n int, err error) {
	name, _, closed := strings.Cut(strings.TrimPrefix(text[1:], "{"), "}")
	if !closed || text[1] != '{' || name == "" {
		return "", 0, errors.New("%q lacks the name of a variable; write %q{NAME}")
	}
	value = v.variables[name]
	if value == "" {
		return "", 0, fmt.Errorf("%%q{%s} has no value: the environment variable is empty or not set", name)
	}
	return value, len("q{}") + len(name), nil
}

// needed returns a value for a file's name, or an error where there is none.
func needed(value, missing string) (string, error) {
	if value == "" {
		return "", errors.New(missing)
	}
	return inName(value), nil
}

// inName makes a value a part of one name.
func inName(value string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, value)
}

// Suffixes of the files that a recording makes.
const (
	LogSuffix   = ".cudatrace"
	TraceSuffix = ".pftrace"
)

// SetOutput sets the paths of the recording's files from what a person gave as output, a path in which patterns
// such as %h may stand. If that is "" or a folder, the files have the default name, and are in the current folder or
// in that one.
func (o *Options) SetOutput(output string) error { return o.setOutput(output, o.nameValues()) }

// nameValues are the facts about the program, or about the first process that is attached to.
func (o *Options) nameValues() nameValues {
	environ, pid := os.Environ(), 0
	if len(o.PIDs) > 0 {
		pid = o.PIDs[0]
		environ, _ = procfs.Environment(pid) // nothing where we may not read it
	}
	host, _ := os.Hostname() // "" if the host has no name
	variables := ranks.Variables(environ)
	return nameValues{
		host: host, pid: pid, rank: ranks.Place(variables), job: ranks.Job(variables), time: time.Now(), variables: variables,
		name: programName(o.Program, o.Args), launches: ranks.Launches(o.Program, o.Args),
	}
}

func (o *Options) setOutput(output string, v nameValues) error {
	o.Output, o.OutputNamed, o.OutputOf = v.defaultName(), false, nil
	if output == "" {
		return nil
	}
	path, err := expandPatterns(output, v)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		o.Output = filepath.Join(path, o.Output)
		return nil
	}
	path = withoutSuffix(path)
	o.Output, o.OutputNamed = path, true
	if v.pid == 0 && strings.Contains(path, laterPID) {
		if strings.Contains(filepath.Dir(path), laterPID) {
			return fmt.Errorf("-o %s: %%p can stand in the name of the file only, not in its folder: the program has no PID yet", output)
		}
		o.Output = strings.ReplaceAll(path, laterPID, "%p")
		o.OutputOf = func(pid int) string { return strings.ReplaceAll(path, laterPID, strconv.Itoa(pid)) }
	}
	return nil
}

func withoutSuffix(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, LogSuffix), TraceSuffix)
}

// defaultName is the name of what is recorded, with its rank if it has one.
func (v *nameValues) defaultName() string {
	if v.rank.Known && v.rank.Of != 1 && !v.launches {
		return fmt.Sprintf("%s-rank%d", v.name, v.rank.Number)
	}
	return v.name
}

// maxName is the most bytes of a name that a person did not choose: a file's name has at most 255, with suffixes and a
// PID.
const maxName = 160

// programName is the name of what a command line runs: "train" for "python3 train.py".
func programName(program string, args []string) string {
	name := wholeName(program, args)
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}

func wholeName(program string, args []string) string {
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
