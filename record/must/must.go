// Package must ends a test where something that the test needs fails. Input: an error. Output: a failed test.
package must

import "testing"

// Do ends the test if there is an error.
func Do(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a function's first result, and ends the test if the function returns an error:
//
//	data := must.Get(os.ReadFile(path))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}
