// Package outname names the files of a recording. Input: the command line's words, and facts for the patterns
// in them. Output: a path without suffix.
package outname

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cudatrace/cudatrace/record/ranks"
)

// Values are the facts that patterns stand for.
type Values struct {
	Host      string
	PID       int // 0: known when the program has been started
	Rank      ranks.Rank
	Job       string
	Name      string // of the program or its script
	Launches  bool   // the program starts the processes of all ranks
	Time      time.Time
	Variables map[string]string // the environment
}

// Patterns lists the patterns, for people.
const Patterns = "%h (host), %p (PID), %r (rank), %j (job), %n (name of the program), %t (time), %q{VARIABLE} and %% (a percent sign)"

// laterPID stands for a PID that is not known yet. No path has a zero byte.
const laterPID = "\x00"

// expand replaces the patterns of a path.
func expand(path string, v Values) (string, error) {
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
func (v *Values) value(text string) (value string, n int, err error) {
	if text == "" {
		return "", 0, errors.New("a name ends in %; write %% for a percent sign")
	}
	switch text[0] {
	case '%':
		value = "%"
	case 'h':
		value, err = has(v.Host, "%h has no value: the host has no name")
	case 'p':
		value = v.pid()
	case 'r':
		if !v.Rank.Known {
			return "", 0, errors.New("%r has no value: no launcher has set a rank (RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID of an srun, ...)")
		}
		value = strconv.FormatUint(uint64(v.Rank.Number), 10)
	case 'j':
		value, err = has(v.Job, "%j has no value: no scheduler has set a job ID (SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, FLUX_JOB_ID)")
	case 'n':
		value = inName(v.Name)
	case 't':
		value = v.Time.Format("20060102-150405")
	case 'q':
		return v.variable(text)
	default:
		return "", 0, fmt.Errorf("%%%s is no pattern; patterns are %s", strings.ToValidUTF8(string([]rune(text)[:1]), "?"), Patterns)
	}
	return value, 1, err
}

func (v *Values) pid() string {
	if v.PID == 0 {
		return laterPID
	}
	return strconv.Itoa(v.PID)
}

// variable is the value of an environment variable: q{NAME}. It may be several folders.
func (v *Values) variable(text string) (value string, n int, err error) {
	name, _, closed := strings.Cut(strings.TrimPrefix(text[1:], "{"), "}")
	if !closed || text[1] != '{' || name == "" {
		return "", 0, errors.New("%q lacks the name of a variable; write %q{NAME}")
	}
	value = v.Variables[name]
	if value == "" {
		return "", 0, fmt.Errorf("%%q{%s} has no value: the environment variable is empty or not set", name)
	}
	return value, len("q{}") + len(name), nil
}

// has returns a value for a file's name, or an error where there is none.
func has(value, missing string) (string, error) {
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
