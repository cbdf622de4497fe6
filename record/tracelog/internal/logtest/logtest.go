// Package logtest is for tests of the log's packages. It reads the seeds of fuzz tests, and fills records with hostile
// values.
package logtest

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// Seeds are the logs in a folder of fuzz seeds, by name: intact logs, logs of other
// versions, and every way in which a log can be wrong.
func Seeds(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no seeds: %v", folder, err)
	}
	seeds := make(map[string][]byte)
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		_, value, _ := strings.Cut(string(text), "\n[]byte(")
		log, err := strconv.Unquote(strings.TrimSuffix(value, ")\n"))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		seeds[filepath.Base(path)] = []byte(log)
	}
	return seeds
}

// Fill sets every number and text of a record, to which it gets a pointer, by calling number
// and text.
func Fill(record any, number func() uint64, text func() string) {
	fill(reflect.ValueOf(record).Elem(), number, text)
}

func fill(v reflect.Value, number func() uint64, text func() string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			of := number
			if slices.Contains(times, v.Type().Field(i).Name) {
				of = func() uint64 { return number() & (1<<62 - 1) } // a reader refuses a record that ends at 2^63 or later
			}
			fill(v.Field(i), of, text)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), number, text)
		}
	case reflect.String:
		v.SetString(text())
	case reflect.Int32:
		v.SetInt(int64(int32(number())))
	case reflect.Int64:
		v.SetInt(int64(number()))
	default:
		v.SetUint(number() & (1<<v.Type().Bits() - 1))
	}
}

// Hostile returns numbers of any magnitude, often ones at a boundary, and texts that mean
// something to the text form.
func Hostile(rnd *rand.Rand) (number func() uint64, text func() string) {
	number = func() uint64 {
		switch rnd.IntN(3) {
		case 0:
			return boundaries[rnd.IntN(len(boundaries))]
		case 1:
			return rnd.Uint64() >> rnd.IntN(64)
		}
		return rnd.Uint64N(20)
	}
	return number, func() string { return texts[rnd.IntN(len(texts))] }
}

// times are the members of records that are times and durations.
var times = []string{"Start", "Dur", "Enter", "Time", "From", "To", "Until", "Monotonic"}

var boundaries = []uint64{
	0, 1, 7, 8, 9, 127, 128, math.MaxInt32, math.MaxUint32, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1,
	math.MaxUint64,
}

var texts = []string{
	"", " ", "a b", `"`, `\`, "\x00", "a\nb", "\xff\xfe", "=", "#", "x=y", "é", "(lost)", "_Z6kernelPfi", "args:",
}

// ErrFull is the error of a disk without room.
var ErrFull = errors.New("no space left on device")

// A FailingWriter takes Room bytes.
type FailingWriter struct{ Room int }

func (f *FailingWriter) Write(b []byte) (int, error) {
	if f.Room -= len(b); f.Room < 0 {
		return 0, ErrFull
	}
	return len(b), nil
}
