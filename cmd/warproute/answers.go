package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// answer is what a router told, as it came and as what it means.
type answer[T any] struct {
	raw   json.RawMessage
	value T
}

// answers are what a router tells one after another. Behind an error there is no other.
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
				yield(a, fmt.Errorf("read the router's answer: %w", err))
				return
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}
