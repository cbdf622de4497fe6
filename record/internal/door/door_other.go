//go:build !amd64

package door

import "errors"

// Shut is for x86-64 alone.
func Shut(int, func() error) error {
	return errors.New("only on x86-64 can its threads be stopped outside of CUDA")
}
