package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// answer is one JSON value of the router, raw and decoded.
type answer[T any] struct {
	raw   json.RawMessage
	value T
}

// answers yields the JSON values of a stream. An error is the last value.
func answers[T any](body io.Reader) iter.Seq2[answer[T], error] {
	return func(yield func(answer[T], error) bool) {
		for lines := json.NewDecoder(body); ; {
			var a answer[T]
			err := lines.Decode(&a.raw)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = json.Unmarshal(a.raw, &a.value)
			}
			if err != nil {
				yield(a, fmt.Errorf("read answer of the router: %w", err))
				return
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}
