# SPDX-License-Identifier: Apache-2.0
"""A Qt program without a screen: widgets, layouts, timers, threads, a picture."""

import hashlib
import sys

from PyQt5.QtCore import QByteArray, QBuffer, QThread, QTimer
from PyQt5.QtGui import QColor, QPainter, QPixmap
from PyQt5.QtWidgets import QApplication, QLineEdit, QPushButton, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

application = QApplication(sys.argv)
window = QWidget()
layout = QVBoxLayout(window)
table = QTableWidget(40, 6)
for row in range(40):
    for column in range(6):
        table.setItem(row, column, QTableWidgetItem(str(row * column)))
button, line = QPushButton("Push"), QLineEdit("text")
for widget in (table, button, line):
    layout.addWidget(widget)
button.clicked.connect(lambda: line.setText(line.text() + "!"))
window.resize(400, 500)
window.show()


class Summing(QThread):
    def run(self):
        self.sum = sum(len(str(i)) for i in range(50000))


threads = [Summing() for _ in range(4)]
turns = []


def turn():
    turns.append(len(turns))
    button.click()
    table.sortItems(len(turns) % 6)
    window.resize(400 + len(turns), 500)
    if len(turns) == 20:
        application.quit()


for thread in threads:
    thread.start()
timer = QTimer()
timer.timeout.connect(turn)
timer.start(5)
status = application.exec_()
for thread in threads:
    thread.wait()
picture = QPixmap(200, 200)
picture.fill(QColor("white"))
painter = QPainter(picture)
for i in range(100):
    painter.drawLine(i, 0, 200 - i, 199)
painter.end()
bytes_ = QByteArray()
buffer = QBuffer(bytes_)
buffer.open(QBuffer.WriteOnly)
picture.save(buffer, "PNG")
print(status, line.text(), [thread.sum for thread in threads], hashlib.md5(bytes(bytes_)).hexdigest(),
      window.grab().width())
