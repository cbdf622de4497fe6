package pattern

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// MaxArgs is the largest number of arguments that are recorded of a function of any library.
const MaxArgs = 6

// Functions selects functions of libraries and programs, none of which are CUDA's: both parts are globs, as of [Match].
type Functions struct {
	File string // name of the file, or its path if there is a slash
	Name string
	Args int  // number of arguments to record, the first ones that are integers or pointers
	Once bool // only the entry is recorded
}

// IsFunctions reports whether a text is written like Functions. Others name functions of CUDA.
func IsFunctions(text string) bool { return strings.Contains(text, ":") }

// ParseFunctions reads FILE:GLOB, with /N behind it for N arguments and /entry for entries alone.
func ParseFunctions(text string) (f Functions, err error) {
	file, name, _ := strings.Cut(text, ":")
	words := strings.Split(name, "/")
	f.File, f.Name = file, words[0]
	if f.File == "" || f.Name == "" {
		return f, errors.New("it must be FILE:GLOB")
	}
	for _, word := range words[1:] {
		n, err := strconv.Atoi(word)
		switch {
		case word == "entry":
			f.Once = true
		case err != nil || n < 0 || n > MaxArgs:
			return f, fmt.Errorf("behind / there must be entry, or a number of arguments from 0 to %d, not %q", MaxArgs, word)
		default:
			f.Args = n
		}
	}
	return f, errors.Join(Check(f.File), Check(f.Name))
}

func (f Functions) String() string {
	text := f.File + ":" + f.Name
	if f.Args > 0 {
		text += "/" + strconv.Itoa(f.Args)
	}
	if f.Once {
		text += "/entry"
	}
	return text
}

// In reports whether a file is selected: libx.so.1.2 by its name, by libx.so, and by libx.
func (f Functions) In(file string) bool {
	if strings.Contains(f.File, "/") {
		return Match(f.File, file)
	}
	base := path.Base(file)
	stem, _, library := strings.Cut(base, ".so")
	return Match(f.File, base) || library && (Match(f.File, stem) || Match(f.File, stem+".so"))
}
