"""The reference pages, written from the code by `make reference`; a test compares both."""
