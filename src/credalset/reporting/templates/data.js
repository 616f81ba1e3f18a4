"use strict";
// The items of the page, as columns; numbers are whole steps, see columns.py. All text goes in by textContent.
document.documentElement.classList.add("js");
const data = JSON.parse(document.getElementById("data").textContent);
const count = data.name.length;
const classes = data.classes;
const size = classes.length;
const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const at = (column, item, k) => data[column][item * size + k];
const share = (column, item, k) => at(column, item, k) / data.coarse;
const isEmpty = (item) => data.width[item] < 0;
const model = data.model === null ? "center" : "model";
const words = (value, digits = 2) => (Number.isNaN(value) ? "–" : value.toFixed(digits));
const shorten = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");
const titleOf = (step) => step[0].toUpperCase() + step.slice(1);
const labelOf = (item) => (data.choice === null ? classes[data.label[item]] : data.choices[data.choice[item]]);

// Votes are those "in hand" or "later"; where they were given as shares, there are no numbers.
const hasVotes = (which, item) => data[which] !== null && data[which].cells[item * size] >= 0;

function voteTotal(which, item) {
  if (!hasVotes(which, item)) return 0;
  if (!data[which].counted) return NaN;
  let total = 0;
  for (let k = 0; k < size; k++) total += data[which].cells[item * size + k];
  return total;
}

function voteShare(which, item, k) {
  if (!hasVotes(which, item)) return NaN;
  const cell = data[which].cells[item * size + k];
  return data[which].counted ? cell / voteTotal(which, item) : cell / data.coarse;
}

function voteWords(item) {
  const found = ["hand", "later"].filter((which) => hasVotes(which, item)).map((which) => voteTotal(which, item));
  return found.length && found.every((total) => total > 0) ? found.join(" + ") : "–";
}

const allVotes = (item) => (voteTotal("hand", item) || 0) + (voteTotal("later", item) || 0);
// What was known when the step was decided: votes in hand, or else the others.
const shownVotes = data.hand === null ? "later" : "hand";
const nameOfVotes = (which) => (data.hand === null ? "votes" : which === "hand" ? "votes in hand" : "later votes");
// Without votes in hand, all votes look alike.
const kindOf = (which) => (data.hand === null ? "hand" : which);
