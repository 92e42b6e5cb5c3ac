"""Mistakes that type checkers find: each on a line that ends in `# wrong`."""

import numpy as np

import treadle as td

a = td.use(np.zeros((2, 3)))
td.sum(a, axes=0)  # wrong
td.sum("numbers")  # wrong
td.sum((a, a))  # wrong
td.sum(["one"])  # wrong
td.sqrt(["one"])  # wrong
print(a - ["one"])  # wrong
td.fold(lambda x: x, 0.0, a)  # wrong
td.sqrt()  # wrong
td.sqrt([1.0], 2.0)  # wrong
td.reshape(a, "2, 3")  # wrong
td.map(3, a)  # wrong
td.stencil(lambda w: w[0, 0], a, boundary="mirror")  # wrong
td.summ(a)  # wrong
print(a.shpae)  # wrong
a + "one"  # wrong
td.jit(3)  # wrong
td.run(a, backends="native")  # wrong
td.schedule.Column("wide")  # wrong
