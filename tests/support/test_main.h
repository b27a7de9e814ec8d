// SPDX-License-Identifier: Apache-2.0
// Included ahead of every test that shares a program with others: there `main` is the test's name, a function like any other.
int main(void);
