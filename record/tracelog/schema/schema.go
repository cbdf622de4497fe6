// Package schema describes the contents of a log: the kinds of record with their fields,
// the tables that describe and index the log itself, and the limits of the format.
//
// The description of a record kind stands in one place, the table in records.go. From it
// come the schema block of every log, the tables of FORMAT.md, the text form, and, by
// `go generate`, the Go type of the record with its methods (tracelog's records_gen.go).
package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of the format. A reader refuses what exceeds them.
const (
	MaxRows        = 65536    // in a block
	MaxColumns     = 64       // of a table
	MaxPayload     = 16 << 20 // bytes of a block, as stored and as decoded
	MaxTables      = 4        // in a block
	MaxStrings     = 1 << 20  // in a log
	MaxStringBytes = 256 << 20
	MaxString      = 8 << 20 // bytes of one string
)

// What a log may have, by its size: so many records and bytes of strings in any log, and so many more for each byte of
// the log. The densest recordings have an eighth of these records.
const (
	freeRecords     = 1 << 20
	recordsPerByte  = 16
	freeStringBytes = 16 << 20
	textPerByte     = 64 // bytes of strings
)

// MostRecords is the largest number of records, strings included, of a log of a size in bytes.
func MostRecords(size int64) int64 { return freeRecords + recordsPerByte*size }

// MostStringBytes is the largest number of bytes of all strings of a log of a size in bytes.
func MostStringBytes(size int64) int {
	return int(min(freeStringBytes+textPerByte*size, MaxStringBytes))
}

// LeastSize is the smallest size in bytes of a log with so many records and bytes of strings.
func LeastSize(records, stringBytes int64) int64 {
	perByte := func(n, free, most int64) int64 { return (max(n-free, 0) + most - 1) / most }
	return max(perByte(records, freeRecords, recordsPerByte), perByte(stringBytes, freeStringBytes, textPerByte))
}

// MostRowsWritten is the largest number of rows with which a table of this version is within MaxPayload, whatever its
// numbers: a number takes at most 10 bytes, and what describes a column at most 32.
const MostRowsWritten = (MaxPayload/MaxFields - 32) / 10

// MaxArgs is the largest number of recorded arguments of a call.
const MaxArgs = 12

// MaxFunctionArgs is the largest number of recorded arguments of a function that is none of CUDA's.
const MaxFunctionArgs = 6

// MaxMetrics is the largest number of metrics of a set.
const MaxMetrics = 24

// A Kind numbers a type of record. Numbers are wire format: never reuse one, not even of a kind that is gone.
type Kind uint8

// Strings is the kind of the texts that all other records refer to.
const Strings Kind = 1

// Numbers of the tables that are not records: they describe and index the log itself.
const (
	Kinds     Kind = 128 // in the schema block
	Fields    Kind = 129 // in the schema block
	Index     Kind = 130 // in index blocks
	Totals    Kind = 131 // in the footer
	Directory Kind = 132 // in the footer
)

// IsWork reports whether the records of the kind are GPU work.
func (k Kind) IsWork() bool {
	l := layouts[k]
	return l != nil && l.Part == &gpu
}

// String is the kind's name in the text form.
func (k Kind) String() string {
	if l := layouts[k]; l != nil {
		return l.Name
	}
	return fmt.Sprintf("kind%d", uint8(k))
}

// KindByName finds a kind of record by its name in the text form. It does not find strings:
// the text form does not show them.
func KindByName(name string) (Kind, bool) {
	k, ok := kindsByName[name]
	return k, ok
}

var kindsByName = func() map[string]Kind {
	m := make(map[string]Kind, len(records))
	for _, t := range records {
		if t.Kind != Strings {
			m[t.Name] = t.Kind
		}
	}
	return m
}()

// A Type says what the values of a field mean and how the text form shows them.
// Numbers are wire format: never reuse one.
type Type uint8

// The types of field. A value of any type but Text is one 64-bit number.
const (
	Uint   Type = 1 // a number
	Int    Type = 2 // a signed number, stored zigzag
	Hex    Type = 3 // an address, a handle or bits
	Time   Type = 4 // ns of CLOCK_MONOTONIC; 0 is "not known"
	Dur    Type = 5 // ns from the record's first time
	String Type = 6 // the id of a string record; 0 is the empty string
	Text   Type = 7 // the bytes themselves
)

var typeNames = [...]string{
	Uint: "uint", Int: "int", Hex: "hex", Time: "time", Dur: "dur", String: "string", Text: "text",
}

// String is the type's name in FORMAT.md.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("type%d", uint8(t))
}

// A Role says what the records of a kind are for. It decides where the writer puts them
// and what it drops first when the file cannot be written. It is not in the log.
type Role uint8

// The roles.
const (
	Event      Role = iota // something that the program did; there can be any number
	Definition             // a thing that events refer to; stands before later events
	Statement              // a fact about the recording: a loss, a note
	Watermark              // says up to which time records are in the log; stands behind these
	Texts                  // the strings; stand before the records that refer to them
	Closing                // the last record, which closing the log adds
)

// A Table describes the records of a kind: the fields in the order of their
// numbers. A later version may append fields, never move, retype or drop one.
type Table struct {
	Kind    Kind
	Name    string
	Meaning string // for the log, FORMAT.md and, without Doc, the comment of the Go type
	Fields  []Field
	Role    Role

	// For readers that put events in order of time.
	Owner  string // the field with the thread, the stream or the set whose events the writer has in order; "" without
	Beside Kind   // the kind with whose events these are put in order; 0 for its own

	// For the Go type of the record. It has the name of the kind.
	Doc  string // its comment, without the name in front; "" makes it from Meaning
	Part *Part  // the struct that it embeds, with the first fields

	// Sent is the member of the injected library's counts that counts the kind's records. It is
	// "" for a kind that the library does not send.
	Sent string
}

// A Field is one column of a kind's table.
type Field struct {
	Name    string
	Type    Type
	Meaning string // for the log, FORMAT.md and, without Comment, the comment of the Go member

	Key      bool // the writer keeps an open block for each value
	Optional bool // the text form leaves the field out where it is 0

	// For the member of the record's Go type. It has the name of the field.
	Wide    bool   // it has 64 bits in place of 32; times and durations always have
	Member  string // another name, or "Grid[0]" for an element of an array
	Counts  bool   // its value is the number of used elements of the array behind it
	Comment string

	Wire Wire // how the injected library sends it; pid is never sent
}

// A Wire is the form in which the injected library sends a field to the recorder. It is not in
// the log.
type Wire uint8

// The forms.
const (
	Plain         Wire = iota // the number; the end in place of a duration; the number of a name in place of a String
	Unsent                    // not at all: the member is 0 or ""
	Behind                    // the bytes of the text follow the record
	Bytes                     // 16 bytes, which the log has in hexadecimal
	Chain                     // the number of the chain of return addresses in place of the caller's id
	PythonFrames              // the process's number of the Python stack in place of the log's
	OperatorStack             // likewise, of the operators
)

// A Part is a struct at the beginning of the Go types of several kinds.
type Part struct {
	Name   string
	Doc    string
	Fields []Field
}

// Records returns the table of every kind of record, in the order of their numbers.
func Records() []Table { return slices.Clone(records) }

// Field is the number of the field with a name, -1 without.
func (t *Table) Field(name string) int {
	return slices.IndexFunc(t.Fields, func(f Field) bool { return f.Name == name })
}

// GoName is the name of the record's Go type.
func (t *Table) GoName() string { return goName(t.Name) }

// GoName is the member of the record's Go type for the field: a name, or an element of an
// array.
func (f *Field) GoName() string {
	if f.Member != "" {
		return f.Member
	}
	return goName(f.Name)
}

// initialisms are the words that Go writes in capitals.
var initialisms = map[string]string{
	"pid": "PID", "ppid": "PPID", "tid": "TID", "id": "ID", "cbid": "CBID", "uuid": "UUID",
	"api": "API", "apis": "APIs", "cupti": "CUPTI", "ecc": "ECC", "pci": "PCI", "pcie": "PCIe", "nccl": "NCCL",
	"gpu": "GPU", "cpu": "CPU",
}

// goName is the Go form of a name: MemoryPool for memory_pool.
func goName(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if capitals, ok := initialisms[word]; ok {
			word = capitals
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// IsName reports whether a name of a log's schema can stand in the text form.
func IsName(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
