import { describe, expect, it } from '@jest/globals';
import { type Books, outOfOrder, unsettled, wronglySold } from '../src/stage/books.ts';

const RIGHT: Books = {
  tickets: [
    { seat: 'A1', customer: 'ana', token: '100' },
    { seat: 'A2', customer: 'ben', token: '300' },
  ],
  payments: [
    { seat: 'A1', customer: 'ana', refunded: false },
    { seat: 'A2', customer: 'cleo', refunded: true },
    { seat: 'A2', customer: 'ben', refunded: false },
  ],
  ledger: [
    { seat: 'A1', token: '100', holder: 'ana' },
    { seat: 'A2', token: '200', holder: 'cleo' },
    { seat: 'A1', token: '150', holder: 'dan' },
    { seat: 'A2', token: '300', holder: 'ben' },
  ],
};

const SEATS = ['A1', 'A2'];

describe('the books of the sample', () => {
  it('books are right when every seat has one buyer, the money fits, and tokens grow per seat', () => {
    expect(wronglySold(RIGHT, SEATS)).toEqual([]);
    expect(unsettled(RIGHT)).toEqual([]);
    expect(outOfOrder(RIGHT)).toEqual([]);
  });

  it('wronglySold finds a seat that was sold twice', () => {
    const tickets = [...RIGHT.tickets, { seat: 'A1', customer: 'dan', token: '150' }];
    expect(wronglySold({ ...RIGHT, tickets }, SEATS)).toEqual(['A1 was sold to ana and dan']);
  });

  it('wronglySold finds a seat that was sold twice to the same customer', () => {
    const tickets = [...RIGHT.tickets, RIGHT.tickets[0]!];
    expect(wronglySold({ ...RIGHT, tickets }, SEATS)).toEqual(['A1 was sold to ana and ana']);
    expect(unsettled({ ...RIGHT, tickets })).toEqual(['ana has a ticket for A1 and has not paid']);
  });

  it('wronglySold finds a seat that was not sold', () => {
    expect(wronglySold(RIGHT, [...SEATS, 'A3'])).toEqual(['A3 was not sold']);
  });

  it('unsettled finds a customer who paid and was neither seated nor refunded', () => {
    const payments = RIGHT.payments.map((payment) => ({ ...payment, refunded: false }));
    expect(unsettled({ ...RIGHT, payments })).toEqual(['cleo paid for A2 and has no ticket']);
  });

  it('unsettled finds a customer who paid twice for one seat', () => {
    const payments = [...RIGHT.payments, { seat: 'A1', customer: 'ana', refunded: false }];
    expect(unsettled({ ...RIGHT, payments })).toEqual(['ana paid for A1 and has no ticket']);
  });

  it('unsettled finds a customer who was refunded and keeps the seat', () => {
    const payments = RIGHT.payments.map((payment) => ({ ...payment, refunded: true }));
    expect(unsettled({ ...RIGHT, payments })).toEqual([
      'ana has a ticket for A1 and has not paid',
      'ben has a ticket for A2 and has not paid',
    ]);
  });

  it('outOfOrder finds a token that went back, and one that was issued twice', () => {
    const late = { seat: 'A2', token: '299', holder: 'eve' };
    const twice = { seat: 'A2', token: '300', holder: 'fay' };
    expect(outOfOrder({ ...RIGHT, ledger: [...RIGHT.ledger, late, twice] })).toEqual([
      'eve came to A2 with token 299 after 300',
      'fay came to A2 with token 300 after 300',
    ]);
  });

  it('outOfOrder compares tokens as numbers, also beyond the digits of a double', () => {
    const ledger = ['99', '100', '9007199254740992', '9007199254740993'].map((token) => ({
      seat: 'A3',
      token,
      holder: 'gil',
    }));
    expect(outOfOrder({ ...RIGHT, ledger })).toEqual([]);
  });
});
